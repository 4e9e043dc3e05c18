"""Directories of pybroker and of Apache Kafka 4.4, formatted or used by one of them and opened by the other.

Apache Kafka 4.4 formats with a snapshot at offset 0 instead of bootstrap.checkpoint (KIP-1170).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from protocol.messages.api_versions import API_VERSIONS
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.kafka_releases import Kafka44
from tools.data.format import main as format_command

FORMATTED = Path(__file__).parents[1] / "data" / "formatted"

#: The levels of 4.3, which Apache Kafka 4.4 sets with --release-version 4.3, and pybroker by default.
FEATURES_4_3 = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def features(broker: RunningBroker) -> dict[str, int]:
    """Return the feature levels in force."""
    with DataClient(HOST, broker.port) as client:
        answer = client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    return {each.name: each.max_version_level for each in answer.finalized_features}


Moved = Callable[[type[RunningBroker]], RunningBroker]


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    """Return a function that stops the broker of the directory, and starts one of another kind on it."""
    running: list[RunningBroker] = []

    def start(kind: type[RunningBroker]) -> RunningBroker:
        for broker in running:
            assert broker.stop() in (0, 143)
        running[:] = [kind(tmp_path)]
        return running[0]

    yield start
    for broker in running:
        broker.kill()


def write(broker: RunningBroker, value: bytes, *, create: bool = False) -> None:
    with DataClient(HOST, broker.port) as client:
        if create:
            client.create_topic("orders")
        client.produce("orders", batch(value))


def values(broker: RunningBroker) -> Sequence[bytes]:
    with DataClient(HOST, broker.port) as client:
        return client.values("orders")


def test_directory_that_kafka_4_4_formatted(moved: Moved, tmp_path: Path) -> None:
    """With --release-version 4.3, and never started: it keeps its features, and 4.4 opens it afterwards."""
    shutil.copytree(FORMATTED / "v4.4.0-release-4.3", tmp_path / "logs")
    ours = moved(OurBroker)
    assert features(ours) == FEATURES_4_3
    write(ours, b"from us", create=True)
    kafka = moved(Kafka44)
    assert features(kafka) == FEATURES_4_3
    assert values(kafka) == [b"from us"]
    write(kafka, b"from kafka")
    ours = moved(OurBroker)
    assert features(ours) == FEATURES_4_3
    assert values(ours) == [b"from us", b"from kafka"]


def test_directory_of_pybroker_under_kafka_4_4(moved: Moved) -> None:
    """And back. Its records and features are kept, at the level of 4.3."""
    write(moved(OurBroker), b"from us", create=True)
    kafka = moved(Kafka44)
    assert features(kafka) == FEATURES_4_3
    assert values(kafka) == [b"from us"]
    write(kafka, b"from kafka")
    ours = moved(OurBroker)
    assert features(ours) == FEATURES_4_3
    assert values(ours) == [b"from us", b"from kafka"]


def test_directory_that_pybroker_formatted_under_kafka_4_4(moved: Moved, tmp_path: Path) -> None:
    """It has bootstrap.checkpoint, which 4.4 still reads."""
    config = tmp_path / "format.properties"
    config.write_text(f"node.id=1\nlisteners=PLAINTEXT://{HOST}:0\nlog.dirs={tmp_path}/logs\n")
    assert format_command(["--config", str(config)]) == 0
    kafka = moved(Kafka44)
    assert features(kafka) == FEATURES_4_3
    write(kafka, b"from kafka", create=True)
    assert values(moved(OurBroker)) == [b"from kafka"]
