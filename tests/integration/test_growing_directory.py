"""A data directory is read while its broker writes: each read returns a prefix of the final records."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from pybroker.source.columns import COLUMNS
from pybroker.source.reader import Reader
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.record_readers import rows, topic_rows
from tests.support.scale import scaled

PARTITIONS = 2
STEPS = min(3000, scaled(500))
#: Segments have only a few transactions each.
SMALL = {"internal.segment.bytes": 2048, "segment.index.bytes": 1024, "index.interval.bytes": 256}

RecordsByPartition = list[list[dict[str, Any]]]
"""The rows of each partition."""


pytestmark = pytest.mark.broker.with_args(OurBroker)


class Writer:
    """Committed and aborted transactions of two producers, interleaved, and records outside of transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._dice = random.Random(topic)
        self._plain = Producer({"bootstrap.servers": bootstrap})
        self._transactional = [
            Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}"}) for number in range(2)
        ]
        #: The last acknowledged offset of each partition.
        self.acknowledged = [-1] * PARTITIONS

    def write(self) -> None:
        for producer in self._transactional:
            producer.init_transactions(30)
        under_way: list[Producer] = []
        for step in range(STEPS):
            producer = self._dice.choice([self._plain, *self._transactional])
            if producer in under_way and self._dice.random() < 0.5:
                under_way.remove(producer)
                self._end(producer)
                continue
            if producer is not self._plain and producer not in under_way:
                under_way.append(producer)
                producer.begin_transaction()
            self._produce(producer, step)
        for producer in under_way:
            self._end(producer)

    def _produce(self, producer: Producer, step: int) -> None:
        for number in range(self._dice.randint(1, 8)):
            producer.produce(
                self._topic,
                f"{step}-{number}" + "x" * self._dice.randrange(60),
                partition=self._dice.randrange(PARTITIONS),
                on_delivery=self._note,
            )
        assert producer.flush(60) == 0

    def _end(self, producer: Producer) -> None:
        end = producer.commit_transaction if self._dice.random() < 0.5 else producer.abort_transaction
        end(30)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        assert error is None
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.acknowledged[partition] = max(self.acknowledged[partition], offset)


def stored(broker: OurBroker, topic: str, *, committed: bool) -> RecordsByPartition:
    """Return the rows that the directory has now."""
    found: RecordsByPartition = [[] for _ in range(PARTITIONS)]
    for row in rows(broker.log_dir, COLUMNS, topics=[topic], committed=committed):
        found[row["partition"]].append(row)
    return found


def wait_until_all_is_decided(broker: OurBroker, topic: str) -> None:
    """Wait for the last markers, as a commit is acknowledged before they are written."""
    with DataClient(HOST, broker.port) as client:
        for partition in range(PARTITIONS):
            eventually(
                partial(client.fetch, topic, 0, partition),
                "transaction markers",
                until=lambda found: found.last_stable_offset >= found.high_watermark,
            )


@pytest.mark.parametrize("preallocate", [False, True])
def test_each_read_continues_where_the_last_ended(broker: OurBroker, preallocate: bool) -> None:
    """Each has all records acknowledged before, in order, and none of an aborted transaction."""
    topic = f"growing-{preallocate}".lower()
    with DataClient(HOST, broker.port) as client:
        client.create_topic(topic, PARTITIONS, {**SMALL, "preallocate": str(preallocate).lower()})
    writer = Writer(broker.bootstrap, topic)
    found: dict[bool, RecordsByPartition] = {committed: [[] for _ in range(PARTITIONS)] for committed in (False, True)}
    reads = 0

    def look() -> None:
        for committed, before in found.items():
            acknowledged = list(writer.acknowledged)
            now = stored(broker, topic, committed=committed)
            for old, new, offset in zip(before, now, acknowledged, strict=True):
                assert new[: len(old)] == old
                assert committed or offset < 0 or new[-1]["offset"] >= offset
            found[committed] = now

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.write)
        while not writing.done():
            look()
            reads += 1
        writing.result()

    wait_until_all_is_decided(broker, topic)
    with Reader() as reader:
        for committed, level in ((False, "read_uncommitted"), (True, "read_committed")):
            read = topic_rows(reader, broker.bootstrap, topic, COLUMNS, **{"isolation.level": level})
            at_last = stored(broker, topic, committed=committed)
            assert [row for of_partition in at_last for row in of_partition] == read
            for old, new in zip(found[committed], at_last, strict=True):
                assert new[: len(old)] == old
    assert reads > 3
    assert len(list((broker.log_dir / f"{topic}-0").glob("*.log"))) > STEPS // 30
