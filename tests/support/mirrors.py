"""`pybroker mirror` as a process that follows a source, and what a test reads from both clusters."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pybroker.testing import Broker

LIMIT_S = 60


class Mirror:
    """A process that mirrors topics from one broker to another. `with` ends it."""

    def __init__(self, source: Broker, target: Broker, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "pybroker", "mirror", "--source", source.bootstrap_servers]
        command += ["--bootstrap-server", target.bootstrap_servers, "--interval", "0.2", *arguments]
        self._out, self._err = directory / "mirror.out", directory / "mirror.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if error is not None:
            error.add_note(f"the mirror's lines: {self.lines}")

    @property
    def lines(self) -> list[str]:
        """Return what it has printed on standard error, without its name."""
        return [line.removeprefix("pybroker mirror: ") for line in self._err.read_text().splitlines()]

    def freeze(self) -> None:
        """Let it do nothing until `thaw`."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Stop it as an operator does; return its exit code."""
        self.process.terminate()
        return self.process.wait(LIMIT_S)


def write(broker: Broker, topic: str, *values: str | bytes, partition: int = 0) -> None:
    """Write records with the key k and a fixed time."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 10_000_000})
    for value in values:
        producer.produce(topic, value, "k", partition, timestamp=1_700_000_000_000)
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0


def values(broker: Broker, topic: str, partition: int = 0) -> dict[int, bytes | None]:
    """Return the values of all records by offset."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    )
    found: dict[int, bytes | None] = {}
    try:
        # not assigned at 0 and moved by a seek: a fetch in between finds 0 deleted, and goes on at the end
        consumer.assign([TopicPartition(topic, partition, first(broker, topic, partition))])
        while True:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset = message.offset()
            assert offset is not None
            found[offset] = message.value()
    finally:
        consumer.close()


def first(broker: Broker, topic: str, partition: int = 0) -> int:
    """Return the first offset of a partition."""
    return _offset(broker, topic, partition, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def end(broker: Broker, topic: str, partition: int = 0) -> int:
    """Return the end of a partition, or -1 if there is none."""
    there = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=LIMIT_S).topics
    if topic not in there or partition not in there[topic].partitions:
        return -1
    return _offset(broker, topic, partition, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def _offset(broker: Broker, topic: str, partition: int, spec: OffsetSpec) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = {TopicPartition(topic, partition): spec}
    futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    (future,) = futures.values()
    return int(future.result(LIMIT_S).offset)


def delete_records(broker: Broker, topic: str, until: int, partition: int = 0) -> None:
    """Delete the records before an offset."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition(topic, partition, until)]).values()
    future.result(LIMIT_S)
