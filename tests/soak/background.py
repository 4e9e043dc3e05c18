"""Background load without a history: groups that rebalance, topics that are created and deleted, compaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Producer

from tests.support.brokers import HOST
from tests.support.data_client import DataClient, Refused, batch
from tests.support.history_clients import HistoryClient
from tests.support.wire import Closed

_KEYS = 200
#: Segments roll every few seconds, so retention and the cleaner have work.
CHURNED = {"internal.segment.bytes": 256 << 10, "segment.index.bytes": 8 << 10, "file.delete.delay.ms": 1000}
COMPACTED = CHURNED | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.1}
EXPIRING = CHURNED | {"retention.bytes": 1 << 20}


class TopicChurn(HistoryClient):
    """Creates, fills and deletes topics, and fills the compacted and the expiring topics."""

    def work(self) -> None:
        port = int(self.bootstrap.rpartition(":")[2])
        while not self.stopping.is_set():
            with suppress(Closed, OSError, Refused), DataClient(HOST, port) as client:
                self._round(client)
            time.sleep(0.1)

    def _round(self, client: DataClient) -> None:
        name = f"churn-{self.done}"
        self.done += 1
        client.create_topic(name, 3, CHURNED)
        for partition in range(3):
            client.produce(name, batch(bytes(1000)), partition)
        for number in range(20):
            client.produce("compacted", batch(bytes(500), key=b"%d" % random.randrange(_KEYS)))
            client.produce("expiring", batch(bytes(2_000 + number)))
        client.delete_topic(name)


class Rebalancer(HistoryClient):
    """A group member that stays for a few seconds, commits, leaves and rejoins."""

    protocol = "classic"

    def work(self) -> None:
        while not self.stopping.is_set():
            with suppress(KafkaException):
                self._visit()

    def _visit(self) -> None:
        config = {
            "bootstrap.servers": self.bootstrap,
            "group.id": f"soak-{self.protocol}",
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 500,
            "log_level": 0,
        }
        consumer = Consumer(config)
        try:
            consumer.subscribe(sorted({topic for topic, _ in self.partitions}))
            until = time.monotonic() + random.uniform(3, 10)
            while time.monotonic() < until and not self.stopping.is_set():
                self.done += len(consumer.consume(500, timeout=0.2))
        finally:
            consumer.close()


class ModernRebalancer(Rebalancer):
    """The same with the protocol of KIP-848."""

    protocol = "consumer"


class Compressor(HistoryClient):
    """Writes with all codecs, through one producer per codec."""

    def work(self) -> None:
        producers = [
            Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 20, "log_level": 0})
            for codec in ("gzip", "snappy", "lz4", "zstd")
        ]
        while not self.stopping.is_set():
            for producer in producers:
                with suppress(BufferError):
                    producer.produce("expiring", b"compress me " * 50)
                producer.poll(0)
                self.done += 1
            time.sleep(0.01)


#: Each gets name, bootstrap servers, partitions and history.
BACKGROUND: list[Callable[..., HistoryClient]] = [TopicChurn, Rebalancer, Rebalancer, ModernRebalancer, Compressor]
