"""Stock clients that note their actions: producers and readers of librdkafka and kafka-python, each a thread.

Values are unique and name their sender. A producer that cannot continue is replaced by another, under another name:
records in flight of the first may arrive among those of the second.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonKafkaError

from tests.support.history import UNKNOWN_OFFSET, Acknowledged, Ended, History, Outcome, Partition, Read, ReadAll, Sent
from tests.support.kafka_python import end_within, keep_requests

#: for all clients: a request without an answer is soon sent again
REQUEST_TIMEOUT_MS = 5_000
_DELIVERY_TIMEOUT_MS = 60_000
_TRANSACTION_TIMEOUT_MS = 20_000
#: share of transactions that a producer aborts on purpose
ABORTED = 0.2
_BATCH = 8
RDKAFKA = {
    "socket.timeout.ms": REQUEST_TIMEOUT_MS,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    # Without a reachable broker it would bootstrap again, and wait for ever for a broker that it has closed.
    # With "none", a Metadata response without brokers leaves it with none: that of Apache Kafka while all are fenced.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
#: errors while brokers are unreachable
GONE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
PYTHON = {
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 200,
    "metrics_enabled": False,
}


class HistoryClient(threading.Thread, ABC):
    """One client; `done` counts its successes. `finish` raises its failure."""

    def __init__(self, name: str, bootstrap: str, partitions: Sequence[Partition], history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.partitions = list(partitions)
        self.history = history
        self.stopping = threading.Event()
        self._given_up = False
        self.failure: BaseException | None = None
        self.done = 0

    def run(self) -> None:
        """Work until `finish` or `give_up`."""
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def finish(self, timeout_s: float = 180) -> None:
        """Let the client complete its work and end."""
        self.stopping.set()
        self.join(timeout_s)
        assert not self.is_alive(), f"{self.name} does not come to an end after {self.done}"
        self.check()

    def give_up(self) -> None:
        """End without waiting: the broker is gone for good."""
        self._given_up = True
        self.stopping.set()

    def check(self) -> None:
        """Raise the client's failure, if any."""
        if self.failure is not None:
            raise self.failure

    @abstractmethod
    def work(self) -> None:
        """Do the client's work until `stopping`."""


class HistoryProducer(HistoryClient):
    """Sends a few values to some partitions, in transactions if `transactional`, and is replaced after a fatal error.

    `least_s`: the shortest time of a round, for a light load; `aborted`: the share of transactions that it aborts on
    purpose.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: Sequence[Partition],
        history: History,
        *,
        transactional: bool = False,
        least_s: float = 0.005,
        aborted: float = ABORTED,
    ) -> None:
        super().__init__(name, bootstrap, partitions, history)
        self.transactional = transactional
        self.least_s = least_s
        self.aborted = aborted
        self.chance = random.Random(name)
        self.lives = 0
        self._sent = 0

    def work(self) -> None:
        while not self.stopping.is_set():
            self.lives += 1
            self.live()

    @abstractmethod
    def live(self) -> None:
        """Use one producer from its creation to its end."""

    @property
    def life(self) -> str:
        """Return the name of the current producer."""
        return f"{self.name}.{self.lives}"

    def transaction(self) -> str | None:
        """Return the name of the transaction that begins now, if transactions are used."""
        return f"{self.life}/{self._sent}" if self.transactional else None

    def send_some(self, transaction: str | None, send: Callable[[Partition, str], None]) -> None:
        """Send values, and note each before."""
        for _ in range(self.chance.randint(1, _BATCH)):
            topic, index = place = self.chance.choice(self.partitions)
            self._sent += 1
            value = f"{self.life}-{self._sent}"
            self.history.note(Sent(self.life, topic, index, value, transaction))
            send(place, value)

    def acknowledge(self, place: Partition, value: str, offset: int) -> None:
        """Note an acknowledged offset."""
        self.done += 1
        self.history.note(Acknowledged(*place, offset, value))

    def end(self, transaction: str, outcome: Outcome) -> None:
        """Note the end of a transaction."""
        self.history.note(Ended(transaction, outcome))


class RdkafkaProducer(HistoryProducer):
    """confluent-kafka."""

    def live(self) -> None:
        config: dict[str, Any] = {
            **RDKAFKA,
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "retry.backoff.ms": 20,
            "message.timeout.ms": _TRANSACTION_TIMEOUT_MS if self.transactional else _DELIVERY_TIMEOUT_MS,
        }
        if self.transactional:
            config |= {"transactional.id": self.name, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
        producer = Producer(config)
        try:
            if self.transactional:
                producer.init_transactions(REQUEST_TIMEOUT_MS / 1000)
            while not self.stopping.is_set():
                self._round(producer)
                producer.poll(0)
                time.sleep(self.least_s)
            if not self.transactional:
                producer.flush(_DELIVERY_TIMEOUT_MS / 1000)
        except KafkaException:
            producer.purge()
        finally:
            # The producer was fenced because its transaction was open for too long, or it failed for good;
            # confluent-kafka
            # calls back with that exception set.
            with suppress(KafkaException, SystemError):
                producer.flush(1)

    def _round(self, producer: Producer) -> None:
        transaction = self.transaction()
        if transaction is not None:
            producer.begin_transaction()
        self.send_some(transaction, partial(self._send, producer))
        if transaction is not None:
            wanted = self.chance.random() >= self.aborted
            outcome = Outcome.UNKNOWN
            try:
                outcome = self._commit(producer) if wanted else self._abort(producer)
            finally:
                self.end(transaction, outcome)

    def _commit(self, producer: Producer) -> Outcome:
        try:
            self._retry(producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            return self._abort(producer)
        return Outcome.COMMITTED

    def _abort(self, producer: Producer) -> Outcome:
        self._retry(producer.abort_transaction)
        return Outcome.ABORTED

    def _retry(self, call: Callable[[float], None]) -> None:
        """Retry while only a retry can return the outcome."""
        while True:
            try:
                return call(REQUEST_TIMEOUT_MS / 1000)
            except KafkaException as error:
                if self._given_up or not error.args[0].retriable():
                    raise

    def _send(self, producer: Producer, place: Partition, value: str) -> None:
        producer.produce(place[0], value.encode(), partition=place[1], on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            place, offset = place_of(message)
            self.acknowledge(place, bytes(message.value() or b"").decode(), offset)


def place_of(message: Message) -> tuple[Partition, int]:
    """Return the partition and offset of a record, or UNKNOWN_OFFSET."""
    topic, index, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert index is not None
    return (topic, index), UNKNOWN_OFFSET if offset is None else offset


class PythonProducer(HistoryProducer):
    """A producer of kafka-python (3.0.12).

    Its `commit_transaction` succeeds although records of the transaction timed out; only their futures report that, so
    they are checked first. After it has lost its connections it may keep the records of a transaction until they time
    out (it logs "Created 0 produce requests" and sends no request), so that time is short.
    """

    def live(self) -> None:
        config: dict[str, Any] = {
            **PYTHON,
            "bootstrap_servers": self.bootstrap,
            "enable_idempotence": True,
            "linger_ms": 1,
            "retry_backoff_ms": 20,
            "max_block_ms": _TRANSACTION_TIMEOUT_MS,
            "delivery_timeout_ms": REQUEST_TIMEOUT_MS + 1000 if self.transactional else _DELIVERY_TIMEOUT_MS,
        }
        if self.transactional:
            config |= {"transactional_id": self.name, "transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS}
        with suppress(PythonKafkaError):
            producer = KafkaProducer(**config)
            try:
                if self.transactional:
                    keep_requests(producer)
                    producer.init_transactions()
                while not self.stopping.is_set():
                    self._round(producer)
                    time.sleep(self.least_s)
                producer.flush(_DELIVERY_TIMEOUT_MS / 1000)
            finally:
                producer.close(1)

    def _round(self, producer: KafkaProducer) -> None:
        transaction = self.transaction()
        if transaction is None:
            self.send_some(None, lambda place, value: self._send(producer, place, value))
            return
        outcome = Outcome.UNKNOWN
        try:
            producer.begin_transaction()
            futures: list[Any] = []
            self.send_some(transaction, lambda place, value: futures.append(self._send(producer, place, value)))
            if self.chance.random() >= self.aborted and self._are_written(producer, futures):
                end_within(_DELIVERY_TIMEOUT_MS / 1000, producer.commit_transaction)
                outcome = Outcome.COMMITTED
            else:
                end_within(_DELIVERY_TIMEOUT_MS / 1000, producer.abort_transaction)
                outcome = Outcome.ABORTED
        finally:
            self.end(transaction, outcome)

    def _send(self, producer: KafkaProducer, place: Partition, value: str) -> Any:
        future = producer.send(place[0], value.encode(), partition=place[1])
        return future.add_callback(lambda found: self.acknowledge(place, value, found.offset))

    def _are_written(self, producer: KafkaProducer, futures: Sequence[Any]) -> bool:
        producer.flush(_DELIVERY_TIMEOUT_MS / 1000)
        return all(future.succeeded() for future in futures)


class HistoryReader(HistoryClient):
    """Reads committed records of all its partitions; when stopped, it reads to their ends."""

    def saw(self, place: Partition, offset: int, value: bytes | None) -> None:
        """Note a record."""
        self.done += 1
        self.history.note(Read(self.name, *place, offset, bytes(value or b"").decode()))

    def came_to_the_end(self, place: Partition) -> None:
        """Note the end of a partition."""
        self.history.note(ReadAll(self.name, *place))


class RdkafkaReader(HistoryReader):
    """confluent-kafka."""

    def work(self) -> None:
        consumer = Consumer(
            {
                **RDKAFKA,
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in self.partitions])
        reached: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        left = set(self.partitions)
        while left and not self._given_up:
            for message in consumer.consume(100, timeout=0.1):
                error = message.error()
                if error is None:
                    place, offset = place_of(message)
                    self.saw(place, offset, message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    place, offset = place_of(message)
                    reached[place] = offset
                elif not error.retriable() and error.code() not in GONE:
                    raise KafkaException(error)
            if self.stopping.is_set():
                self._ask_for_ends(consumer, ends)
                for place in [each for each in left if each in ends and reached.get(each, 0) >= ends[each]]:
                    left.discard(place)
                    self.came_to_the_end(place)
        consumer.close()

    def _ask_for_ends(self, consumer: Consumer, ends: dict[Partition, int]) -> None:
        """Ask for the ends: for a reader of committed records they are the last stable offsets."""
        for place in self.partitions:
            if place not in ends:
                with suppress(KafkaException):
                    found = consumer.get_watermark_offsets(TopicPartition(*place), REQUEST_TIMEOUT_MS / 1000)
                    ends[place] = found[1]


class PythonReader(HistoryReader):
    """kafka-python."""

    def work(self) -> None:
        consumer = self._consumer()
        partitions = [PythonPartition(*place) for place in self.partitions]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        left = set(partitions)
        ends: dict[PythonPartition, int] = {}
        while left and not self._given_up:
            for place, records in consumer.poll(timeout_ms=100).items():
                for record in records:
                    self.saw((place.topic, place.partition), record.offset, record.value)
            if self.stopping.is_set():
                with suppress(PythonKafkaError):
                    ends = ends or consumer.end_offsets(partitions)
                    for place in [each for each in left if each in ends and consumer.position(each) >= ends[each]]:
                        left.discard(place)
                        self.came_to_the_end((place.topic, place.partition))
        consumer.close()

    def _consumer(self) -> KafkaConsumer:
        while True:
            try:
                return KafkaConsumer(
                    **PYTHON,
                    bootstrap_servers=self.bootstrap,
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    group_id=None,
                )
            except PythonKafkaError:
                if self.stopping.is_set():
                    raise
