"""Decide which clients report which of their metrics (KIP-714), by client metrics subscriptions.

A client asks for its subscription, and then pushes those metrics at intervals. If there is a metrics endpoint, it shows
them (broker/observability/telemetry/). Otherwise pushes are checked and dropped, as in a Kafka without a reporter of
client metrics, and ApiVersions does not offer the API.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from config import BrokerConfig
from config.keys import CLIENT_METRICS_KEYS
from config.resources import client_pattern
from metadata.decision import Refused
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.id_text import id_text
from protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.observability.telemetry.otlp import DataPoint
    from broker.observability.telemetry.received import ReceivedMetrics
    from broker.requests.context import ClientConnection

#: The number of remembered clients, and their minimum lifetime: Kafka's limits.
MOST_INSTANCES = 16_384
SHORTEST_MEMORY_MS = 60_000
ALL_METRICS = "*"
_COMPRESSION_TYPES = range(5)
#: After these errors a client must fetch its subscription again, and may do so at once.
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
#: The labels of clients' metrics.
_LABELS = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
#: Clients choose these values, and each of their metrics repeats them.
_MOST_OF_A_LABEL = 100


class ClientInstance(msgspec.Struct):
    """A client: what it says of itself, what it should report, and when it was last active, in monotonic time.

    `subscriptions` are the names of those that match it. `taken_ms`: its last report, of `taken_count` numbers.
    """

    instance_id: bytes
    connection: ClientConnection
    about: Mapping[str, str]
    version: int
    subscription_id: int
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int
    seen_ms: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    taken_ms: int | None = None
    taken_count: int = 0
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def may_ask(self, now_ms: int) -> bool:
        """Return whether its interval has passed since its last request, and if so note this one."""
        last = max((each for each in (self.asked_ms, self.pushed_ms) if each is not None), default=None)
        if last is not None and now_ms - last < self.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether it may push: it has asked since its last push, or its interval has passed. Note the push."""
        last = self.pushed_ms
        asked_since = self.asked_ms is not None and (last is None or self.asked_ms > last)
        if not asked_since and last is not None and now_ms - last < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True

    def is_over(self, now_ms: int) -> bool:
        """Return whether it has disconnected, or was inactive for long."""
        return self.connection.is_closed or now_ms - self.seen_ms > max(SHORTEST_MEMORY_MS, 3 * self.interval_ms)


class ClientMetrics:
    """The subscriptions in force, and the clients that have asked for them."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, now_ms: Callable[[], int]) -> None:
        self.max_bytes = config.get_int("telemetry.max.bytes")
        self._image = metadata.image
        self._now_ms = now_ms
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._version = 0
        #: The number of pushes by the error code of their answers.
        self.pushes: Counter[ErrorCode] = Counter({ErrorCode.NONE: 0})
        #: None: pushed metrics are dropped.
        self.received: ReceivedMetrics | None = None
        if config.get_list("metrics.listeners"):
            from broker.observability.telemetry.received import (
                ReceivedMetrics,  # as long as nobody asks for it, nothing is needed
            )

            self.received = ReceivedMetrics(now_ms)
        metadata.on_config_changed(self._on_config_changed)

    def _on_config_changed(self, resource_type: int, _name: str) -> None:
        self._version += resource_type == ResourceType.CLIENT_METRICS

    @property
    def instance_count(self) -> int:
        """The number of clients that were active lately, and are connected."""
        now_ms = self._now_ms()
        return sum(not each.is_over(now_ms) for each in self._instances.values())

    def instances(self) -> list[ClientInstance]:
        """Return known clients, including some that have disconnected."""
        return list(self._instances.values())

    def is_known(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def ask(self, instance_id: bytes, connection: ClientConnection, client_id: str | None) -> ClientInstance:
        """Return the client with its subscription. Raises Refused if it asks too often."""
        instance = self._instance(instance_id, connection, client_id)
        if not instance.may_ask(self._now_ms()) and instance.last_error not in _ASK_AGAIN:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance

    def push(
        self,
        instance_id: bytes,
        connection: ClientConnection,
        client_id: str | None,
        *,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        size_bytes: int,
    ) -> ClientInstance:
        """Return the client of a report that is accepted. Raises Refused. A terminating report is the last one."""
        instance = self._instance(instance_id, connection, client_id)
        was_terminating, instance.terminating = instance.terminating, terminating
        if was_terminating:
            error = ErrorCode.INVALID_REQUEST
        elif not instance.may_push(self._now_ms()) and not terminating:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif compression_type not in _COMPRESSION_TYPES:
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size_bytes > self.max_bytes:
            error = ErrorCode.TELEMETRY_TOO_LARGE
        else:
            error = ErrorCode.NONE
        instance.last_error = error
        if error is not ErrorCode.NONE:
            self.pushes[error] += 1
            raise Refused(error)
        return instance

    def take(self, instance: ClientInstance, read: list[DataPoint] | ErrorCode) -> ErrorCode:
        """Record what a client has pushed, or why it could not be read; return the answer's error code."""
        error = ErrorCode.NONE
        if isinstance(read, ErrorCode):
            error = instance.last_error = read
        else:
            instance.taken_ms, instance.taken_count = self._now_ms(), len(read)
            if self.received is not None:
                self.received.take(instance.instance_id, instance.about, instance.interval_ms, read)
        self.pushes[error] += 1
        return error

    def _instance(self, instance_id: bytes, connection: ClientConnection, client_id: str | None) -> ClientInstance:
        """Return the client; a new one if its connection or the subscriptions changed, or it was inactive for long."""
        now_ms = self._now_ms()
        former = known = self._instances.get(instance_id)
        if known is not None and (known.version < self._version or known.is_over(now_ms)):
            known = None
        if known is None:
            known = self._made(instance_id, connection, client_id, now_ms)
            if former is not None:
                known.taken_ms, known.taken_count = former.taken_ms, former.taken_count
            self._instances[instance_id] = known
        known.seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        if len(self._instances) > MOST_INSTANCES:
            self._instances.popitem(last=False)
        return known

    def _made(
        self, instance_id: bytes, connection: ClientConnection, client_id: str | None, now_ms: int
    ) -> ClientInstance:
        client = {
            "client_instance_id": id_text(instance_id),
            "client_id": client_id or "",
            "client_software_name": connection.client_software_name,
            "client_software_version": connection.client_software_version,
            "client_source_address": connection.client_host,
            "client_source_port": str(connection.client_port),
        }
        interval_ms = _value({}, "interval.ms")
        assert isinstance(interval_ms, int)
        subscriptions: list[str] = []
        metrics: dict[str, None] = {}
        for (kind, name), settings in self._image.configs.items():
            if kind == ResourceType.CLIENT_METRICS and _matches(_value(settings, "match"), client):
                own_ms, names = _value(settings, "interval.ms"), _value(settings, "metrics")
                assert isinstance(own_ms, int)
                assert isinstance(names, tuple)
                interval_ms = min(interval_ms, own_ms)
                metrics.update(dict.fromkeys(names))
                subscriptions.append(name)
        wanted = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        subscription_id = _subscription_id(wanted, interval_ms, instance_id)
        about = {label: client[label][:_MOST_OF_A_LABEL] for label in _LABELS}
        return ClientInstance(
            instance_id=instance_id,
            connection=connection,
            about=about,
            version=self._version,
            subscription_id=subscription_id,
            subscriptions=tuple(subscriptions),
            metrics=wanted,
            interval_ms=interval_ms,
            seen_ms=now_ms,
        )


def _value(settings: Mapping[str, str], key: str) -> object:
    """Return a subscription's value, which was checked when it was set, or the default."""
    row = CLIENT_METRICS_KEYS[key]
    return row.read(settings[key]) if key in settings else row.default


def _matches(patterns: object, client: Mapping[str, str]) -> bool:
    """Return whether all patterns match the client; of two for one attribute the later one counts.

    A pattern that Kafka has accepted, and this broker would not, matches no client.
    """
    assert isinstance(patterns, tuple)
    found = [client_pattern(each) for each in patterns if each]
    wanted = dict(each for each in found if each is not None)
    return None not in found and all(each.fullmatch(client[attribute]) for attribute, each in wanted.items())


def _subscription_id(metrics: Collection[str], interval_ms: int, instance_id: bytes) -> int:
    """Return the signed 32-bit id. As in KIP-714 it is a checksum of the subscription and the client's id."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    halves = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    found = checksum ^ ((halves ^ (halves >> 32)) & 0xFFFFFFFF)
    return found - (1 << 32) if found >= 1 << 31 else found
