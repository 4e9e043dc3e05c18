"""The pytest plugin. It is active wherever pybroker is installed; `-p no:pybroker` disables it."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping

import pytest

from pybroker.testing.broker import Broker
from pybroker.testing.cluster import Cluster

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "kafka_topic(partitions=1, config={}): partitions and configs of the kafka_topic fixture's topic"
    )


@pytest.fixture(scope="session")
def kafka_broker_config() -> Mapping[str, object]:
    """Return keys of server.properties for `kafka_broker`. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_config: Mapping[str, object]) -> Iterator[Broker]:
    """Return a running broker that all tests of the session share: `kafka_broker.bootstrap_servers`."""
    with Broker(kafka_broker_config) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return the name of a new topic for this test. `@pytest.mark.kafka_topic(partitions=3)` configures it."""
    marker = request.node.get_closest_marker("kafka_topic")
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-").lower()[:100]
    name = f"{words}-{os.getpid()}-{next(_numbers)}"
    if marker is None:
        kafka_broker.create_topic(name)
    else:
        kafka_broker.create_topic(name, *marker.args, **marker.kwargs)
    return name


@pytest.fixture(scope="session")
def kafka_cluster_config() -> Mapping[str, object]:
    """Return keys of server.properties for all nodes of `kafka_cluster`. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def _kafka_cluster(kafka_cluster_config: Mapping[str, object]) -> Iterator[Cluster]:
    with Cluster(config=kafka_cluster_config) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(_kafka_cluster: Cluster) -> Cluster:
    """Return a cluster of three brokers that the tests of the session share. All of them run as the test begins."""
    _kafka_cluster.start()
    for node in (_kafka_cluster.controller, *_kafka_cluster.brokers):
        node.clear_faults()
    return _kafka_cluster
