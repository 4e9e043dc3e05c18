"""Brokers with tiered storage in a directory: ours, and Apache Kafka with LocalTieredStorage.

LocalTieredStorage is in the jars of Apache Kafka's tests. Both brokers copy, expire and delete within tenths of a
second, and start from the same properties.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pybroker.pipeline.jars import Artifact, cache_directory, resolve
from tests.support.brokers import KafkaBroker, OurBroker, RunningBroker
from tests.support.java import KAFKA_LINE, KAFKA_VERSION, compile_java, kafka_classpath, kafka_jars

#: The newest release of which Maven Central has the jars of these tests.
_TESTS = "4.3.1"
_TEST_JARS = (
    Artifact(
        "org.apache.kafka",
        "kafka-storage",
        _TESTS,
        "f3236936854c13815ffaa7f35a3f2d6861c125616cba5395b538b8680dded886",
        classifier="test",
    ),
    Artifact(
        "org.apache.kafka",
        "kafka-clients",
        _TESTS,
        "c51ed05ff7c7fd618f920b147e0bb44af2de5384101c531ccbef5098199f0d44",
        classifier="test",
    ),
)
#: Apache Kafka 4.4 has moved a class that these tests use.
_MOVED = """package org.apache.kafka.common.utils;
public class LogContext extends org.apache.kafka.common.utils.internals.LogContext {
    public LogContext(String prefix) { super(prefix); }
    public LogContext() { super(); }
}
"""

_FOLDER = "kafka-tiered-storage"
#: How often copies and expiries are due.
INTERVAL_MS = 200
_COMMON = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.manager.task.interval.ms": str(INTERVAL_MS),
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": str(INTERVAL_MS),
    "log.segment.delete.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@functools.cache
def tiered_classpath() -> tuple[Path, ...]:
    """Return the class path of an Apache Kafka with LocalTieredStorage."""
    tests = resolve(f"kafka-tiered-tests-{_TESTS}", _TEST_JARS)
    moved = (_moved_class(),) if KAFKA_LINE >= (4, 4) else ()
    return (kafka_classpath(), *moved, *tests)


def _moved_class() -> Path:
    """Compile the class that 4.4 has moved; return the folder of its package, which is kept."""
    kept = cache_directory() / f"kafka-tiered-moved-{KAFKA_VERSION}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            source = Path(scratch, "LogContext.java")
            source.write_text(_MOVED)
            classes = Path(scratch, "classes")
            classes.mkdir()
            compile_java([source], kafka_jars(), classes)
            try:
                classes.rename(kept)
            except OSError:  # another process was first
                if not kept.exists():
                    raise
    return kept


def tiered_properties(directory: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return properties of a broker whose remote storage is below `directory`."""
    return {**_COMMON, "rsm.config.dir": str(directory), **(more or {})}


def remote_directory(directory: Path) -> Path:
    """Return the folder of the partitions in the remote storage below `directory`."""
    return directory / _FOLDER


class TieredOurs(OurBroker):
    """pybroker with remote storage beside its logs."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, tiered_properties(directory / "remote", properties))


class TieredKafka(KafkaBroker):
    """Apache Kafka with remote storage beside its logs."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, tiered_properties(directory / "remote", properties))

    def _command(self, config: Path) -> list[str]:
        command = super()._command(config)
        # class data archives begin with Kafka's own jars
        command[command.index("-cp") + 1] = ":".join(str(path) for path in tiered_classpath())
        return command


TIERED: dict[str, type[RunningBroker]] = {"ours": TieredOurs, "kafka": TieredKafka}
