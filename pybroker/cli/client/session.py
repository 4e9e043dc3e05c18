"""The connection of a command to a cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, DescribeClusterResult, OffsetSpec

from pybroker.cli.client.connection import Connection
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.quiet_librdkafka import without_lines

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

T = TypeVar("T")
Place = tuple[str, int]
"""A topic's name and a partition."""

_TURN_S = 0.02
_BESIDE = re.compile(r"^\S+/(?:bootstrap|\d+): | \(after \d+ms in state [^)]*\)")  # details for librdkafka's authors
#: Errors that librdkafka retries for ever, and a command reports at once.
_HOPELESS = (
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.SASL_AUTHENTICATION_FAILED,
)
#: Errors of a topic that was deleted, or is being created.
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


class FoundOffsets(NamedTuple):
    """Offsets by partition, with their leader epochs, and the errors of the other partitions."""

    offsets: dict[Place, int]
    epochs: dict[Place, int]
    errors: dict[Place, CommandError]


class Session:
    """A connected client of a broker. Raises CommandError if no broker responds, UsageError for wrong properties."""

    def __init__(self, connection: Connection) -> None:
        self.timeout_s = connection.timeout_s
        self._trouble = ""
        self._trouble_code: int | None = None
        self._is_hopeless = False
        self.properties: dict[str, Any] = {
            "client.id": "pybroker",
            **connection.properties,
            "bootstrap.servers": connection.server,
            **without_lines(connection.properties),
            "error_cb": self._on_error,
        }
        self._bootstrap = connection.server
        try:
            self.admin = AdminClient(self.properties)
        except KafkaException as error:
            raise UsageError(error.args[0].str()) from None
        self.cluster: DescribeClusterResult = self._connect()

    def wait(self, future: Future[T], about: str = "") -> T:
        """Wait for a response. Raises CommandError; `about` begins its message."""
        try:
            return future.result(self.timeout_s + 5)  # the client's own timeout comes first
        except KafkaException as error:
            raise failed(error, about) from None
        except TimeoutError:
            raise CommandError(f"{about or self._bootstrap}: no answer within {self.timeout_s:g} s") from None

    def wait_for_all(self, futures: Mapping[str, Future[T]]) -> dict[str, T]:
        """Wait for several responses, by name. Raises CommandError with all errors, and their code if all have one."""
        answers: dict[str, T] = {}
        problems: list[CommandError] = []
        for name, future in futures.items():
            try:
                answers[name] = self.wait(future, name)
            except CommandError as error:
                problems.append(error)
        if problems:
            codes = {error.error_code for error in problems}
            raise CommandError("; ".join(map(str, problems)), codes.pop() if len(codes) == 1 else None)
        return answers

    def partitions(self) -> set[Place]:
        """Return the partitions of all topics that the user may see."""
        topics = self.admin.list_topics(timeout=self.timeout_s).topics
        return {(name, partition) for name, topic in topics.items() for partition in topic.partitions}

    def starts(self, partitions: Iterable[Place], *, if_there: bool = False) -> dict[Place, int]:
        """Return the first offset of each partition. `if_there` skips those deleted or without a leader."""
        return self._offsets(partitions, OffsetSpec.earliest(), if_there=if_there)  # type: ignore[no-untyped-call]

    def ends(self, partitions: Iterable[Place], *, committed: bool = False, if_there: bool = False) -> dict[Place, int]:
        """Return the end offset of each partition: the high watermark, or the last stable offset."""
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, spec, committed=committed, if_there=if_there)

    def found_starts(self, partitions: Iterable[Place]) -> FoundOffsets:
        """Return the first offset of each partition, or the partition's error. CommandError if no broker responds."""
        return self._look_up(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def found_ends(self, partitions: Iterable[Place], *, committed: bool = False) -> FoundOffsets:
        """Return the end offset of each partition, as `ends`, or the partition's error."""
        return self._look_up(partitions, OffsetSpec.latest(), committed=committed)  # type: ignore[no-untyped-call]

    def known(self, partitions: Iterable[Place]) -> list[Place]:
        """Return those partitions that exist."""
        metadata = self.admin.list_topics(timeout=self.timeout_s)
        there = {(name, index) for name, topic in metadata.topics.items() for index in topic.partitions}
        return sorted(there.intersection(partitions))

    def since(self, partitions: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
        """Return the offset of the first record at or after a time, in each partition; its end if there is none."""
        partitions = list(partitions)
        ends = self.ends(partitions)
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def consumer(self, properties: Mapping[str, object]) -> Consumer:
        """Return a consumer of the same cluster. Raises UsageError."""
        try:
            return Consumer({**self.properties, **properties})
        except KafkaException as error:
            raise UsageError(error.args[0].str()) from None

    def administration(self) -> AbstractContextManager[Administration]:
        """Return kafka-python's client, for requests that librdkafka does not have. Raises CommandError without it."""
        if find_spec("kafka") is None:
            raise CommandError("it needs kafka-python: pip install '.[client]' in the folder of pybroker's sources")
        from pybroker.cli.client.administration import administration

        return administration(self)

    def may(self, operation: AclOperation) -> bool:
        """Return whether the user may do an operation on the cluster; without an authorizer, every user may."""
        asked = self.admin.describe_cluster(include_authorized_operations=True, request_timeout=self.timeout_s)
        return operation in (self.wait(asked).authorized_operations or ())

    def check(self) -> None:
        """Raise CommandError once no broker can be reached."""
        if self._is_hopeless:
            raise CommandError(f"{self._bootstrap}: {self._trouble}", self._trouble_code)

    def responds(self) -> bool:
        """Forget earlier problems, and return whether a broker responds now."""
        self._trouble, self._trouble_code, self._is_hopeless = "", None, False
        try:
            self._connect()
        except CommandError:
            return False
        return True

    def _offsets(
        self, partitions: Iterable[Place], spec: OffsetSpec, *, committed: bool = False, if_there: bool = False
    ) -> dict[Place, int]:
        found = self._look_up(partitions, spec, committed=committed)
        for error in found.errors.values():
            if not if_there or error.error_code not in _GONE:
                raise error
        return found.offsets

    def _look_up(self, partitions: Iterable[Place], spec: OffsetSpec, *, committed: bool = False) -> FoundOffsets:
        found = FoundOffsets({}, {}, {})
        wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        if not wanted:
            return found
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures = self.admin.list_offsets(wanted, request_timeout=self.timeout_s, isolation_level=level)
        for each, future in futures.items():
            place = (each.topic, each.partition)
            try:
                answer = self.wait(future, f"{each.topic}-{each.partition}")
            except CommandError as error:
                found.errors[place] = error
                continue
            found.offsets[place] = answer.offset
            found.epochs[place] = -1 if answer.leader_epoch is None else answer.leader_epoch
        return found

    def _connect(self) -> DescribeClusterResult:
        future: Future[DescribeClusterResult] = self.admin.describe_cluster(request_timeout=self.timeout_s)
        deadline = time.monotonic() + self.timeout_s
        while not future.done():
            self.admin.poll(_TURN_S)
            self.check()
            if time.monotonic() > deadline:
                raise CommandError(f"{self._bootstrap}: {self._trouble or 'no broker answers'}")
        return self.wait(future, self._bootstrap)

    def _on_error(self, error: KafkaError) -> None:
        # "all brokers are down" follows the error with the reason
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._trouble:
            self._trouble, self._trouble_code = _BESIDE.sub("", error.str()), error.code()
        self._is_hopeless |= error.code() in _HOPELESS


def failed(failure: KafkaException, about: str = "") -> CommandError:
    """Return an error as one line."""
    error: KafkaError = failure.args[0]
    message = error.str()
    if message == "(null)":  # librdkafka's for an answer with a code and no message
        message = KafkaError(error.code()).str()
    text = " ".join(message.removeprefix("Broker: ").split())
    return CommandError(f"{about}: {text}" if about else text, error.code())
