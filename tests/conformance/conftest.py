"""Fixtures of conformance tests: the two brokers under comparison, and one JVM that runs Java programs and tools.

A test that takes `reference` runs twice: against pybroker ("ours") and against Apache Kafka ("kafka").
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pybroker.pipeline.session import open_session
from pybroker.pipeline.spec import Kafka, Parse, Pipeline, Sink, Source, Spark, Stream
from tests.support.brokers import BROKERS, RunningBroker
from tests.support.java import KAFKA_LINE, JavaRunner, compile_java, kafka_classpath, kafka_jars
from tests.support.postgres import DRIVER
from tests.support.spark_sources import KEY

JAVA_SOURCES = Path(__file__).parent / "java"
#: Classes whose Apache Kafka has other names in each release.
SOURCES_OF_RELEASE = Path(__file__).parent / ("java_4.4" if KAFKA_LINE >= (4, 4) else "java_4.3")

StartBroker = Callable[..., RunningBroker]


@contextmanager
def brokers_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Yield a function (kind, properties) that starts a broker; all brokers end with the context."""
    started: list[RunningBroker] = []

    def start(kind: str, properties: Mapping[str, str] | None = None) -> RunningBroker:
        broker = BROKERS[kind](tmp_path_factory.mktemp(kind), properties)
        started.append(broker)
        return broker

    yield start
    for broker in started:
        if broker.kind == "kafka":
            broker.kill()  # its clean shutdown takes seconds
        else:
            broker.stop()


@pytest.fixture(scope="module")
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Return a function (kind, properties) that starts a broker for this file of tests."""
    with brokers_of_their_own(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RunningBroker]]:
    """Return a function that returns the shared broker of a kind, started at its first use."""
    running: dict[str, RunningBroker] = {}
    with brokers_of_their_own(tmp_path_factory) as start:

        def get(kind: str) -> RunningBroker:
            if kind not in running:
                running[kind] = start(kind)
            return running[kind]

        yield get


@pytest.fixture(scope="session", params=["ours", "kafka"])
def reference(request: pytest.FixtureRequest, shared_broker: Callable[[str], RunningBroker]) -> RunningBroker:
    """Return the broker that the test runs against; it is shared, so topics and groups need names of their own."""
    return shared_broker(request.param)


_numbers = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a name for a topic or group that no other test uses."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', request.node.name).strip('-').lower()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def java_classpath(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Compile our Java programs; return the jars of Apache Kafka, with which a class data archive begins, and them."""
    classes = tmp_path_factory.mktemp("classes")
    sources = [*sorted(JAVA_SOURCES.glob("*.java")), *sorted(SOURCES_OF_RELEASE.glob("*.java"))]
    compile_java(sources, kafka_jars(), classes)
    return [kafka_classpath(), classes, JAVA_SOURCES]


@pytest.fixture(scope="session")
def java(java_classpath: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaRunner]:
    """Start a JVM with Apache Kafka's jars and our Java programs."""
    with (tmp_path_factory.mktemp("java") / "stderr.txt").open("wb") as log:
        runner = JavaRunner(java_classpath, log)
        yield runner
        runner.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one session, configured as by the pipeline's command, with the jars of all formats and of a database's
    driver.

    PySpark's loggers for failures would give every handler JSON, pytest's too, which other tests read.
    """
    PySparkLogger.addHandler = logging.Logger.addHandler  # type: ignore[method-assign, assignment]
    conf = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    sources = {"avro": Source(["t"], parse=Parse("avro", schema="{}"))}
    sinks = {"delta": Sink("delta", path="p"), "jdbc": Sink("jdbc", url="", table="", packages=[DRIVER])}
    streams = {name: Stream("avro", sink) for name, sink in sinks.items()}
    session = open_session(Pipeline(1, "tests", Kafka(""), sources, streams, "", spark=Spark(conf=conf)))
    yield session
    session.stop()


@pytest.fixture
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Set how Spark's Kafka source asks for offsets in this test: "admin" or "consumer" (support/spark_sources.py)."""
    way: str = request.param
    spark.conf.set(KEY, str(way == "consumer").lower())
    yield way
    spark.conf.unset(KEY)


@pytest.fixture(scope="module")
def broker(shared_broker: Callable[[str], RunningBroker]) -> RunningBroker:
    """Return our shared broker, unless a file has a broker of its own."""
    return shared_broker("ours")
