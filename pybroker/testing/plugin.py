"""The pytest plugin: it is there as soon as pybroker is installed. `-p no:pybroker` turns it off."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping

import pytest

from pybroker.testing.broker import Broker

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "kafka_topic(partitions=1, config={}): what the topic of the fixture kafka_topic has"
    )


@pytest.fixture(scope="session")
def kafka_broker_config() -> Mapping[str, object]:
    """Keys of server.properties for `kafka_broker`; a fixture of the same name in a conftest.py puts its own here."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_config: Mapping[str, object]) -> Iterator[Broker]:
    """A running broker that all tests share: `kafka_broker.bootstrap_servers`."""
    with Broker(kafka_broker_config) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> str:
    """The name of a topic that only this test has, empty; `@pytest.mark.kafka_topic(partitions=3)` says more."""
    marker = request.node.get_closest_marker("kafka_topic")
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-").lower()[:100]
    name = f"{words}-{os.getpid()}-{next(_numbers)}"
    if marker is None:
        kafka_broker.create_topic(name)
    else:
        kafka_broker.create_topic(name, *marker.args, **marker.kwargs)
    return name
