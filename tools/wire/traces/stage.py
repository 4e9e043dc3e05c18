"""A broker for one trace, with a topic, and the actions that all traces share."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from pybroker.testing import Broker
from tools.wire.sessions.addresses import address
from tools.wire.traces.client import Client

TOPIC = "orders"
#: An index then has an entry for each batch but the first, not only each 4096 bytes.
_TOPIC_SETTINGS = {"index.interval.bytes": 0}


class Stage:
    """A broker in a temporary directory; `with` starts it, and then stops and deletes it. Errors: BrokerError."""

    def __init__(self, partitions: int = 1) -> None:
        self._partitions = partitions
        self._ends = ExitStack()
        self.broker = Broker()

    def __enter__(self) -> Stage:
        self._ends.callback(self.broker.stop)
        try:
            self.broker.start()
            self.broker.create_topic(TOPIC, self._partitions, _TOPIC_SETTINGS)
        except BaseException:  # signals, too
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def client(self, name: str) -> Client:
        """Open a connection."""
        client = Client(address(self.broker.bootstrap_servers), name)
        self._ends.callback(client.close)
        return client

    def partition(self, name: str = f"{TOPIC}-0") -> Path:
        """Return the directory of a partition."""
        return self.broker.data_directory / name

    def checkpoint(self, name: str) -> str:
        """Return the first partition's value in a checkpoint file."""
        lines = (self.broker.data_directory / name).read_text().splitlines()
        return next((line for line in lines if line.startswith(f"{TOPIC} 0 ")), "nothing")


def batch(*values: str, sequence: int = -1, producer: tuple[int, int] = (-1, -1), transactional: bool = False) -> bytes:
    """Return a batch as a producer sends it: keys k0, k1, ... and these values."""
    builder = BatchBuilder(
        producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, transactional=transactional
    )
    for number, value in enumerate(values):
        builder.append(int(time.time() * 1000), b"k%d" % number, value.encode())
    return builder.build()


def topic_data(topic_id: bytes, records: bytes) -> list[object]:
    """Return the field of a Produce request with records for the first partition."""
    return [TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[PartitionProduceData(records=records)])]


def produce(client: Client, records: bytes) -> None:
    """Write records without showing the exchange."""
    client.ask(PRODUCE, acks=-1, timeout_ms=30_000, topic_data=topic_data(client.topic_id(TOPIC), records))
