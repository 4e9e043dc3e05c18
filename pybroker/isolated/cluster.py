"""A cluster: the leaders of its partitions, and requests to them with retries."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from protocol.error_codes import ErrorCode
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from pybroker.isolated.access import Access
from pybroker.isolated.connection import Connection, ConnectionFailed
from pybroker.source.errors import BrokerFailed, UnknownPartition, UnusableOption

T = TypeVar("T")
TopicPartition = tuple[str, int]

#: The newest version before topics have ids.
_METADATA_VERSION = 9
_PAUSE_S = 0.2


class Retriable(Exception):
    """An error that may be temporary, such as a new leader, or a broker that has just started."""

    def __init__(self, code: int, about: str) -> None:
        super().__init__(f"{about}: {ErrorCode(code).text}")


def check(code: int, about: str) -> None:
    """Raise the exception of an error code, if it is one. Errors: Retriable, UnknownPartition, BrokerFailed."""
    if not code:
        return
    try:
        error = ErrorCode(code)
    except ValueError:
        raise BrokerFailed(f"{about}: error {code}") from None
    if error.retriable:
        raise Retriable(code, about)
    raise BrokerFailed(f"{about}: {error.text}")


class Cluster:
    """Connections to brokers by address, opened on demand.

    `properties` are those of Kafka's clients: bootstrap.servers, request.timeout.ms, and those of access.py. All
    methods that send requests also raise AccessDenied.
    """

    def __init__(self, properties: Mapping[str, str], now_s: Callable[[], float] = time.monotonic) -> None:
        """Errors: UnusableOption."""
        servers = [each.strip() for each in properties.get("bootstrap.servers", "").split(",") if each.strip()]
        if not servers:
            raise UnusableOption("kafka.bootstrap.servers is not set: host:port, or several with commas between them")
        self._bootstrap = [_address(each) for each in servers]
        self.timeout_s = _milliseconds(properties, "request.timeout.ms", "30000") / 1000
        self._access = Access(properties)
        self.now_s = now_s
        self._connections: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def partitions(self, topics: list[str] | None, pattern: str | None = None) -> list[TopicPartition]:
        """Return all partitions of these topics, or of topics whose full name matches, also those without a leader.

        Errors: UnknownPartition, BrokerFailed.
        """
        return self.with_retries(lambda: self._partitions(topics, pattern))

    def at_leader(self, place: TopicPartition, call: Callable[[Connection], T]) -> T:
        """Call `call` with a connection to a partition's leader; return its result. Errors: of `call`, BrokerFailed.

        After Retriable or a failed connection, find the leader again, and retry.
        """

        def attempt() -> T:
            leader = self._leader(place)
            try:
                return call(self._connected(leader))
            except (Retriable, ConnectionFailed):
                del self._leaders[place]
                raise

        return self.with_retries(attempt)

    def at_any(self, call: Callable[[Connection], T]) -> T:
        """Call `call` with a connection to any broker, and return its result. Errors: of `call`, BrokerFailed."""
        return self.with_retries(lambda: call(self._any()))

    def with_retries(self, attempt: Callable[[], T]) -> T:
        """Retry until success, or until the time is over."""
        deadline = self.now_s() + self.timeout_s
        while True:
            try:
                return attempt()
            except (Retriable, ConnectionFailed) as error:
                if self.now_s() >= deadline:
                    raise BrokerFailed(str(error)) from None
            time.sleep(_PAUSE_S)

    # ---- internals

    def _partitions(self, topics: list[str] | None, pattern: str | None) -> list[TopicPartition]:
        """Return all partitions, with or without a leader, and remember their leaders."""
        names = None if pattern is not None else [MetadataRequestTopic(name=name) for name in topics or ()]
        answer, _ = self._any().call(METADATA, _METADATA_VERSION, topics=names, allow_auto_topic_creation=False)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found: list[TopicPartition] = []
        for topic in answer.topics:
            if pattern is not None and (topic.is_internal or not re.fullmatch(pattern, topic.name)):
                continue
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownPartition(f"there is no topic {topic.name}")
            check(topic.error_code, topic.name)
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                found.append(place)
                if partition.leader_id in brokers:
                    self._leaders[place] = brokers[partition.leader_id]
        return sorted(found)

    def _leader(self, place: TopicPartition) -> tuple[str, int]:
        """Return the leader's address. Errors: UnknownPartition; Retriable if the partition has no leader now."""
        name = f"{place[0]}-{place[1]}"
        if place not in self._leaders and place not in self._partitions([place[0]], None):
            raise UnknownPartition(f"there is no partition {name}")
        if place not in self._leaders:
            raise Retriable(ErrorCode.LEADER_NOT_AVAILABLE, name)
        return self._leaders[place]

    def _any(self) -> Connection:
        problems = []
        for address in [*self._connections, *self._bootstrap]:
            try:
                return self._connected(address)
            except ConnectionFailed as error:
                problems.append(str(error))
        raise ConnectionFailed("; ".join(dict.fromkeys(problems)))

    def _connected(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_broken:
            connection.close()
            del self._connections[address]
        if address not in self._connections:
            host, port = address
            self._connections[address] = Connection(host, port, timeout_s=self.timeout_s, access=self._access)
        return self._connections[address]


#: The cluster of the last request, which the next one usually needs too: its connections stay open.
_kept: dict[str, Cluster] = {}


@contextmanager
def kept_cluster(properties: Mapping[str, str]) -> Iterator[Cluster]:
    """Return the cluster of these properties, with its open connections; after an error, a new one."""
    key = repr(sorted(properties.items()))
    if key not in _kept:
        _kept[key] = Cluster(properties)
    try:
        yield _kept[key]
    except BaseException:
        with _kept.pop(key):
            raise


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65_535:
        raise UnusableOption(f"kafka.bootstrap.servers: {text!r} is not host:port")
    host = host.strip("[]")
    try:
        host.encode("idna")  # as a socket would encode it
    except UnicodeError as error:
        raise UnusableOption(f"kafka.bootstrap.servers: {text!r} has no name of a host: {error}") from None
    return host, int(port)


def _milliseconds(properties: Mapping[str, str], name: str, usual: str) -> int:
    text = properties.get(name, usual)
    if not text.isdigit():
        raise UnusableOption(f"kafka.{name}: {text!r} is not a number of milliseconds")
    return int(text)


def as_isolation_level(properties: Mapping[str, Any]) -> int:
    """Return isolation.level as a number. Errors: UnusableOption."""
    levels = {"read_uncommitted": 0, "read_committed": 1}
    name = properties.get("isolation.level", "read_uncommitted")
    if name not in levels:
        raise UnusableOption(f"kafka.isolation.level: {name!r} is neither read_uncommitted nor read_committed")
    return levels[name]
