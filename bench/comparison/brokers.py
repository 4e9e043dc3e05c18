"""The compared brokers, started on a core of their own, with properties that suit a load."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.java import java_command, kafka_classpath
from tests.support.settled import wait_for_topic
from tests.support.wire import WireClient

#: Both brokers delete data beyond 384 MiB a partition, so that a run fits into the page cache.
PROPERTIES = {
    "log.segment.bytes": "134217728",
    "log.retention.bytes": "402653184",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "message.max.bytes": "104857600",
}
KAFKA_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


class Kafka(KafkaBroker):
    """Apache Kafka as its start script runs it; the tests' broker is tuned for a quick start instead."""

    def _command(self, config: Path) -> list[str]:
        super()._command(config)  # formats the directory
        return java_command("kafka.Kafka", [str(config)], [kafka_classpath()], options=KAFKA_OPTIONS)


BOTH: tuple[type[RunningBroker], ...] = (OurBroker, Kafka)


#: The first core is the brokers', the second the load's; only cores that this process may use.
_CORES = sorted(os.sched_getaffinity(0))


def create(broker: RunningBroker, topic: str, partitions: int) -> None:
    """Create a topic, and wait until the broker serves it."""
    with WireClient(HOST, broker.port) as client:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        client.call(CREATE_TOPICS, 5, topics=[wanted], timeout_ms=60_000)
    wait_for_topic(broker, topic, partitions)


@contextmanager
def on_first_core() -> Iterator[None]:
    """Run processes that the block starts on the first core; move this process to the second afterwards."""
    os.sched_setaffinity(0, _CORES[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CORES[1:2] or _CORES)


@contextmanager
def started(
    folder: Path, properties: Mapping[str, str] = PROPERTIES, kinds: Sequence[type[RunningBroker]] = BOTH
) -> Iterator[list[RunningBroker]]:
    """Yield the brokers, ours first, running on the first core; this process runs on the second meanwhile."""
    brokers: list[RunningBroker] = []
    try:
        with on_first_core():
            for kind in kinds:
                brokers.append(kind(folder / kind.kind, properties))
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()
        os.sched_setaffinity(0, _CORES)


def start_again(broker: RunningBroker) -> float:
    """Restart a broker; return the seconds from spawning its new process until that answers."""
    broker.stop()
    with on_first_core():
        began = time.perf_counter()
        broker.start()
        return time.perf_counter() - began
