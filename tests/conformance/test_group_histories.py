"""Random histories of classic groups, request by request: the same answers here and at Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import KafkaBroker, OurBroker, RunningBroker
from tests.support.group_script import play
from tests.support.scale import scaled

SEEDS = min(scaled(6), 100)
STEPS = 60
PROPERTIES = {"group.max.size": "3", "offset.metadata.max.bytes": "4096", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    home = tmp_path_factory.mktemp("histories")
    with OurBroker(home / "ours", PROPERTIES) as ours, KafkaBroker(home / "kafka", PROPERTIES) as kafka:
        yield ours, kafka


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_histories_are_answered_alike(seed: int, brokers: tuple[RunningBroker, RunningBroker]) -> None:
    """Joins, syncs, heartbeats, leaves, commits and others, valid and invalid, of dynamic and static members.

    KIP-345, KIP-394, KIP-709, KIP-800, KIP-814; parked requests, disconnects, group.max.size.
    """
    assert play(brokers, f"history-{seed}", seed, STEPS) > 0
