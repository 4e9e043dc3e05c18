"""The jars that tests run: Apache Kafka, its clients and its console tools.

`PYBROKER_TEST_KAFKA_VERSION` selects another release than the one that the project follows (protocol/kafka_release.py).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from protocol import kafka_release
from pybroker.pipeline.jars import Artifact, resolve

KAFKA_VERSION = os.environ.get("PYBROKER_TEST_KAFKA_VERSION") or kafka_release.KAFKA_VERSION
#: Such as (4, 4).
KAFKA_LINE = tuple(int(number) for number in KAFKA_VERSION.split(".")[:2])

_KAFKA = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    Artifact("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.4"),
)


@functools.cache
def kafka_jars() -> tuple[Path, ...]:
    """Return the jars of Apache Kafka and its dependencies."""
    return tuple(resolve(f"kafka-{KAFKA_VERSION}", _KAFKA, transitive=True))


@functools.cache
def streams_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Streams and its dependencies."""
    streams = (Artifact("org.apache.kafka", "kafka-streams", KAFKA_VERSION), *_KAFKA[2:])
    return tuple(resolve(f"kafka-streams-{KAFKA_VERSION}", streams, transitive=True))


@functools.cache
def connect_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Connect, its connectors for files, and their dependencies."""
    names = ("connect-runtime", "connect-file")
    connect = tuple(Artifact("org.apache.kafka", name, KAFKA_VERSION) for name in names)
    return tuple(resolve(f"kafka-connect-{KAFKA_VERSION}", (*connect, *_KAFKA[2:]), transitive=True))


def streams_classpath() -> Path:
    """Return the same jars as one entry of a class path."""
    return streams_jars()[0].parent / "*"


def old_client_jars(version: str) -> list[Path]:
    """Return the jars of an older release's Java clients."""
    clients = Artifact("org.apache.kafka", "kafka-clients", version)
    return resolve(f"kafka-clients-{version}", [clients], transitive=True)


def kafka_classpath() -> Path:
    """Return the same jars as one entry of a class path that a JVM accepts, but not every compiler."""
    return kafka_jars()[0].parent / "*"
