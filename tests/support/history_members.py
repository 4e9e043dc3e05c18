"""Members of groups that note their actions (tests/support/history.py), of librdkafka and kafka-python.

Each commits its position after a few records, and waits for the answer. With each assignment a member reads and commits
under a new name: so the history shows which member owned which partition when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError as PythonKafkaError
from kafka.structs import OffsetAndMetadata

from tests.support.history import Assigned, Committed, Committing, History, Partition, Read
from tests.support.history_clients import GONE, PYTHON, RDKAFKA, REQUEST_TIMEOUT_MS, HistoryClient, place_of
from tests.support.kafka_python import know_topics

_HEARTBEAT_MS = 300
#: A member that does not follow a rebalance is removed after this time and joins again, before a test's time-out. After
#: a long pause of the machine librdkafka (2.16) once sent only heartbeats without a request for its assignment, after
#: it had lost the answer with the partitions to revoke. A broker sends that answer once, Apache Kafka too.
_REBALANCE_MS = 45_000
#: records between two commits, at most
_RECORDS = 100


def sessions(timeout_ms: int) -> dict[str, str]:
    """Return the broker's properties for sessions of so many milliseconds in both protocols."""
    return {
        "group.min.session.timeout.ms": str(timeout_ms),
        "group.consumer.min.session.timeout.ms": str(timeout_ms),
        "group.consumer.session.timeout.ms": str(timeout_ms),
        "group.consumer.min.heartbeat.interval.ms": str(_HEARTBEAT_MS),
        "group.consumer.heartbeat.interval.ms": str(_HEARTBEAT_MS),
    }


class HistoryMember(HistoryClient):
    """Reads committed records of its partitions; `lives` counts its assignments.

    `protocol`: "classic", with sessions of `session_ms`, or "consumer", that of KIP-848 (the broker sets the session).
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: Sequence[Partition],
        history: History,
        *,
        group: str,
        session_ms: int,
        protocol: str = "classic",
    ) -> None:
        super().__init__(name, bootstrap, partitions, history)
        self.group = group
        self.session_ms = session_ms
        self.protocol = protocol
        self.lives = 0
        self._readers: dict[Partition, str] = {}
        #: its read and committed positions
        self._positions: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    @property
    def topics(self) -> list[str]:
        """Return the subscribed topics."""
        return sorted({topic for topic, _ in self.partitions})

    def given(self, places: Sequence[Partition]) -> None:
        """Note assigned partitions."""
        if not places:
            return
        self.lives += 1
        for place in places:
            self._readers[place] = f"{self.name}.{self.lives}"
            self.history.note(Assigned(self.group, self._readers[place], *place))

    def taken(self, places: Sequence[Partition]) -> None:
        """Note revoked partitions."""
        for place in places:
            for known in (self._readers, self._positions, self._committed):
                known.pop(place, None)

    def saw(self, place: Partition, offset: int, value: bytes | None) -> None:
        """Note a record."""
        self.done += 1
        self._positions[place] = offset + 1
        self.history.note(Read(self._readers[place], *place, offset, bytes(value or b"").decode()))

    def commit(self, send: Callable[[Mapping[Partition, int]], None]) -> None:
        """Commit the records read since the last commit by `send`, which raises if the broker rejects it or does not
        answer.
        """
        # copies, because kafka-python changes them in a thread of its own
        readers, positions, known = dict(self._readers), dict(self._positions), dict(self._committed)
        offsets = {place: at for place, at in positions.items() if place in readers and known.get(place) != at}
        if not offsets:
            return
        commits = [(readers[place], *place, offset) for place, offset in offsets.items()]
        self.history.note(*(Committing(*each) for each in commits))
        send(offsets)
        self.history.note(*(Committed(*each) for each in commits))
        self._committed.update(offsets)


class RdkafkaMember(HistoryMember):
    """confluent-kafka."""

    def work(self) -> None:
        config: dict[str, Any] = {"group.protocol": self.protocol}
        if self.protocol == "classic":
            config |= {
                "partition.assignment.strategy": "range",
                "session.timeout.ms": self.session_ms,
                "heartbeat.interval.ms": _HEARTBEAT_MS,
            }
        consumer = Consumer(
            {
                **RDKAFKA,
                **config,
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "max.poll.interval.ms": _REBALANCE_MS,
            }
        )
        consumer.subscribe(
            self.topics,
            on_assign=lambda _, places: self.given([(each.topic, each.partition) for each in places]),
            on_revoke=lambda _, places: self.taken([(each.topic, each.partition) for each in places]),
        )
        while not self.stopping.is_set():
            wait_s = 0.1
            for _ in range(_RECORDS):
                message = consumer.poll(wait_s)
                if message is None:
                    break
                self._take(message)
                wait_s = 0
            with suppress(KafkaException):
                self.commit(lambda offsets: _commit(consumer, offsets))
        consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            place, offset = place_of(message)
            self.saw(place, offset, message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            place, offset = place_of(message)
            self._positions[place] = offset  # also beyond the markers of transactions
        elif not error.retriable() and error.code() not in GONE:
            raise KafkaException(error)


def _commit(consumer: Consumer, offsets: Mapping[Partition, int]) -> None:
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    for each in consumer.commit(offsets=wanted, asynchronous=False):
        if each.error is not None:
            raise KafkaException(each.error)


class PythonMember(HistoryMember):
    """A member of kafka-python, which knows only the classic protocol."""

    def work(self) -> None:
        consumer = KafkaConsumer(
            **PYTHON,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            max_poll_interval_ms=_REBALANCE_MS,
        )
        consumer.subscribe(self.topics, listener=_Listener(self))
        know_topics(consumer, *self.topics)
        while not self.stopping.is_set():
            with suppress(PythonKafkaError):
                for place, records in consumer.poll(timeout_ms=1000, max_records=_RECORDS).items():
                    for record in records:
                        self.saw((place.topic, place.partition), record.offset, record.value)
                self._look_where_it_is(consumer)
                self.commit(lambda offsets: _commit_python(consumer, offsets))
        consumer.close(autocommit=False)

    def _look_where_it_is(self, consumer: KafkaConsumer) -> None:
        """Take its position, which is beyond the markers of transactions."""
        for place in list(self._readers):
            position = consumer.position(PythonPartition(*place), timeout_ms=REQUEST_TIMEOUT_MS)
            if position is not None:
                self._positions[place] = position


def _commit_python(consumer: KafkaConsumer, offsets: Mapping[Partition, int]) -> None:
    wanted = {PythonPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
    consumer.commit(wanted, timeout_ms=REQUEST_TIMEOUT_MS)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes assignments to a member."""

    def __init__(self, member: HistoryMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Sequence[PythonPartition]) -> None:
        self._member.given([(each.topic, each.partition) for each in assigned])

    def on_partitions_revoked(self, revoked: Sequence[PythonPartition]) -> None:
        self._member.taken([(each.topic, each.partition) for each in revoked])
