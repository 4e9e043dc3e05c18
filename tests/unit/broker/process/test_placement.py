"""The mapping of partitions to workers."""

from collections import Counter

import pytest

from broker.process.placement import MAIN, worker_of
from metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_partitions_of_a_topic_are_spread_evenly(count: int) -> None:
    """The mapping is always the same."""
    for partitions in (1, count, 10):
        placed = [worker_of("t", index, count) for index in range(partitions)]
        counts = Counter(placed)
        assert set(placed) <= set(range(count))
        assert max(counts.values()) - min(counts[worker] for worker in range(count)) <= 1
        assert placed == [worker_of("t", index, count) for index in range(partitions)]


def test_topics_of_one_partition_are_spread() -> None:
    counts = Counter(worker_of(f"topic-{number}", 0, 4) for number in range(4000))
    assert min(counts.values()) > 800


@pytest.mark.parametrize("topic", sorted({*INTERNAL_TOPICS, CLUSTER_METADATA}))
def test_internal_topics_are_at_the_main_process(topic: str) -> None:
    assert {worker_of(topic, index, 3) for index in range(50)} == {MAIN}


def test_mapping_is_that_of_former_versions() -> None:
    """It is not stored, so another function would move partitions at a restart."""
    assert [worker_of("orders", index, 3) for index in range(4)] == [(0xE52FFDEE + index) % 3 for index in range(4)]
