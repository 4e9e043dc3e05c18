"""Other releases of Apache Kafka than the reference."""

from __future__ import annotations

import functools
from pathlib import Path

from pybroker.pipeline.jars import Artifact, resolve
from tests.support.brokers import KafkaBroker, StandaloneKafka
from tests.support.java import QUICK, java_command


@functools.cache
def release_classpath(version: str) -> Path:
    """Return the jars of that release and their dependencies as one entry of a class path."""
    artifacts = (
        Artifact("org.apache.kafka", "kafka_2.13", version),
        Artifact("org.apache.kafka", "kafka-tools", version),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        Artifact("org.apache.logging.log4j", "log4j-core", "2.25.4"),
    )
    return resolve(f"kafka-{version}", artifacts, transitive=True)[0].parent / "*"


class KafkaOfRelease(KafkaBroker):
    """Apache Kafka of another release, on a formatted directory. Its log names the voter (kraft.version 1)."""

    version: str

    def _own_properties(self) -> dict[str, str]:
        own = super()._own_properties()
        quorum = own.pop("controller.quorum.voters").partition("@")[2]
        return {**own, "controller.quorum.bootstrap.servers": quorum}

    def _command(self, config: Path) -> list[str]:
        options = (*QUICK, "-Xmx512m")
        return java_command("kafka.Kafka", [str(config)], [release_classpath(self.version)], options=options)


class Kafka43(StandaloneKafka):
    """Apache Kafka 4.3.1."""

    def _classpath(self) -> Path:
        return release_classpath("4.3.1")


class Kafka44(KafkaOfRelease):
    """Apache Kafka 4.4.0."""

    version = "4.4.0"
