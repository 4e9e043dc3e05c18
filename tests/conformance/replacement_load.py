"""The load of brokers that are replaced: clients that note their actions, and a copier with transactions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.conformance.replaced_brokers import SESSION_MS
from tests.support.checker import check
from tests.support.eventually import eventually
from tests.support.history import History, Partition, ReadAll, read_history
from tests.support.history_clients import (
    GONE,
    RDKAFKA,
    HistoryClient,
    HistoryProducer,
    PythonProducer,
    RdkafkaProducer,
    RdkafkaReader,
)
from tests.support.history_load import LIGHT_S, MOVED, PLAIN, HistoryLoad
from tests.support.history_members import PythonMember, RdkafkaMember
from tests.support.java import JavaRunner

COPY = "copied"
_PATIENCE_S = 120
_CALL_S = 10
#: records of a transaction, at most
_RECORDS = 500


class Copier(HistoryClient):
    """Copies records of a topic to the same partitions of another one, in transactions with the group's offsets.

    After an error another producer of the same transactional id ends the open transaction, and begins at the committed
    offsets. librdkafka (2.16) may wait for the former coordinator of a group for ever, beyond its time-out: then the
    producer is left to itself. Each transaction costs a few round trips, so that it takes as many records as there are.
    """

    def work(self) -> None:
        consumer = committed_consumer(self.bootstrap, self.name)
        consumer.subscribe(sorted({topic for topic, _ in self.partitions}))
        while not self.stopping.is_set():
            config = {**RDKAFKA, "bootstrap.servers": self.bootstrap, "linger.ms": 0}
            with suppress(KafkaException):
                self._live(Producer({**config, "transactional.id": self.name}), consumer)
        consumer.close()

    def _live(self, producer: Producer, consumer: Consumer) -> None:
        producer.init_transactions(_CALL_S)
        assigned = consumer.assignment()
        for place in consumer.committed(assigned, _CALL_S) if assigned else ():
            consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        while not self.stopping.is_set():
            records = taken(consumer.consume(_RECORDS, timeout=0.2))
            if records:
                self._copy(producer, consumer, records)
                self.done += len(records)

    def _copy(self, producer: Producer, consumer: Consumer, records: Sequence[Message]) -> None:
        producer.begin_transaction()
        for record in records:
            producer.produce(COPY, record.value(), partition=record.partition())  # type: ignore[arg-type]
        offsets = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        group = consumer.consumer_group_metadata()
        errors: list[KafkaException] = []

        def end() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, group, _CALL_S)
                producer.commit_transaction(_CALL_S)
            except KafkaException as error:
                errors.append(error)

        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        ending.join(3 * _CALL_S)
        if errors or ending.is_alive():
            raise errors[0] if errors else KafkaException("the transaction does not end")


def committed_consumer(bootstrap: str, group: str) -> Consumer:
    """Return a consumer of committed records."""
    return Consumer(
        {
            **RDKAFKA,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
        }
    )


def taken(messages: Sequence[Message]) -> list[Message]:
    """Return the records of these messages. Raises their errors, except those of brokers that are gone for a while."""
    for message in messages:
        error = message.error()
        if error is not None and not error.retriable() and error.code() not in GONE:
            raise KafkaException(error)
    return [message for message in messages if message.error() is None]


def values(bootstrap: str, topic: str) -> list[list[bytes | None]]:
    """Return the committed values of each of a topic's two partitions."""
    consumer = committed_consumer(bootstrap, "values")
    read: list[list[bytes | None]] = []
    try:
        for index in range(2):
            place = TopicPartition(topic, index, 0)
            end = consumer.get_watermark_offsets(place, _PATIENCE_S)[1]
            consumer.assign([place])
            found: list[bytes | None] = []

            def reached(place: TopicPartition = place, found: list[bytes | None] = found) -> int:
                found.extend(record.value() for record in taken(consumer.consume(500, timeout=0.2)))
                return int(consumer.position([place])[0].offset)

            if end:
                eventually(reached, until=end.__le__, timeout_s=_PATIENCE_S)
            read.append(found)
    finally:
        consumer.close()
    return read


def end_transaction(bootstrap: str, transactional_id: str) -> None:
    """End a transaction that is perhaps open."""
    Producer({**RDKAFKA, "bootstrap.servers": bootstrap, "transactional.id": transactional_id}).init_transactions(60)


class ShareReader:
    """A member of a share group, of Apache Kafka's client, that accepts all records of the topic "plain"."""

    def __init__(self, java: JavaRunner, bootstrap: str) -> None:
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, "shared", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.incremental_alter_configs([resource])[resource].result(60)
        self._program = java.start("ShareConsume", bootstrap, "plain", "shared", "0", "accept")

    def finish(self, wanted: set[str]) -> None:
        """Wait until all these values were delivered, and end.

        An acknowledgement may be taken although its answer is lost: then the record does not come again.
        """
        eventually(lambda: wanted - self._delivered(), equal_to=set(), timeout_s=_PATIENCE_S, interval_s=0.5)
        assert self._delivered() == wanted
        assert self._program.stop().exit_code == 0, self._program.stderr

    def _delivered(self) -> set[str]:
        lines = self._program.stdout.splitlines()
        return {line.removeprefix("=plain/") for line in lines if line.startswith("=plain/")}


class ReplacementLoad(HistoryLoad):
    """An idempotent and a transactional producer, a reader, groups of both protocols of consumers, and a copier.

    With a JVM there is a share group, too. A transactional producer of librdkafka (2.16) may print a fatal
    INVALID_TXN_STATE, and is replaced: if its AddPartitionsToTxn is lost with the coordinator, it aborts a transaction
    that brokers of neither kind know. `kafka_python` adds an idempotent and a transactional producer of that library.
    """

    def __init__(
        self,
        bootstrap: str,
        history: History,
        java: JavaRunner | None = None,
        *,
        session_ms: int = SESSION_MS,
        kafka_python: bool = False,
    ) -> None:
        self._bootstrap = bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = admin.create_topics(
            [NewTopic(topic, num_partitions=2, replication_factor=3) for topic in ("plain", "moved", COPY)]
        )
        for created in topics.values():
            created.result(60)
        places = PLAIN + MOVED
        group: dict[str, Any] = {"session_ms": session_ms}
        producers: list[HistoryProducer] = [
            RdkafkaProducer("rd", bootstrap, PLAIN, history, least_s=LIGHT_S),
            RdkafkaProducer("rd-tx", bootstrap, MOVED, history, least_s=LIGHT_S, transactional=True),
        ]
        if kafka_python:
            producers += [
                PythonProducer("py", bootstrap, PLAIN, history, least_s=LIGHT_S),
                PythonProducer("py-tx", bootstrap, MOVED, history, least_s=LIGHT_S, transactional=True),
            ]
        super().__init__(
            history,
            producers,
            [RdkafkaReader("rd-reader", bootstrap, places, history)],
            [
                RdkafkaMember("rd-classic", bootstrap, places, history, group="classic", **group),
                PythonMember("py-classic", bootstrap, places, history, group="classic", **group),
                RdkafkaMember("rd-modern", bootstrap, places, history, group="modern", protocol="consumer", **group),
            ],
        )
        self.share_reader = ShareReader(java, bootstrap) if java else None
        self.copier = Copier("copier", bootstrap, PLAIN, history)
        self.copier.start()

    def check(self) -> None:
        super().check()
        if hasattr(self, "copier"):
            self.copier.check()

    def get_on(self, count: int, clients: Sequence[HistoryClient] | None = None) -> None:
        """Wait until all clients, the copier too, have done `count` more."""
        super().get_on(count, [*self.clients, self.copier] if clients is None else clients)

    def finish(self) -> None:
        """End all clients; their history must have no anomaly, and the copy must be exact."""
        for producer in self.producers:
            producer.finish()
        for producer in self.producers:
            if producer.transactional:
                end_transaction(self._bootstrap, producer.name)
        for group in sorted({member.group for member in self.members}):
            self._wait_for_commits(group, PLAIN + MOVED)
            self.history.note(*(ReadAll(group, *place) for place in PLAIN + MOVED))
        for reader in (*self.readers, *self.members):
            reader.finish()
        self._wait_for_commits(self.copier.name, PLAIN)
        self.copier.finish()
        plain = values(self._bootstrap, "plain")
        assert values(self._bootstrap, COPY) == plain
        if self.share_reader:
            self.share_reader.finish({bytes(each or b"").decode() for part in plain for each in part})
        self.history.close()
        assert [str(anomaly) for anomaly in check(read_history(self.history.path))] == []

    def _wait_for_commits(self, group: str, places: Sequence[Partition]) -> None:
        """Wait until a group has committed the ends of these partitions."""
        consumer = committed_consumer(self._bootstrap, group)
        for topic, index in places:
            place = TopicPartition(topic, index)
            end = consumer.get_watermark_offsets(place, _PATIENCE_S)[1]

            def committed(place: TopicPartition = place) -> int:
                self.check()
                return int(consumer.committed([place], _PATIENCE_S)[0].offset)

            about = partial("{} commits the end of {}".format, group, place)
            eventually(committed, about, until=end.__le__, timeout_s=_PATIENCE_S, interval_s=0.1)
        consumer.close()
