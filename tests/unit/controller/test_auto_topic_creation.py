"""Internal topics are created by keys of their own, each of which has an effect."""

from __future__ import annotations

import pytest

from config import load
from controller.auto_topic_creation import creatable_topic

CONFIGS = {
    ("__consumer_offsets", "offsets.topic.segment.bytes"): "segment.bytes",
    ("__transaction_state", "transaction.state.log.segment.bytes"): "segment.bytes",
    ("__transaction_state", "transaction.state.log.min.isr"): "min.insync.replicas",
    ("__share_group_state", "share.coordinator.state.topic.segment.bytes"): "segment.bytes",
    ("__share_group_state", "share.coordinator.state.topic.min.isr"): "min.insync.replicas",
}
PARTITIONS = {
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
    "__share_group_state": "share.coordinator.state.topic.num.partitions",
}
FACTORS = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}


@pytest.mark.parametrize(("name", "key"), CONFIGS, ids=lambda text: text)
def test_values_of_an_internal_topic(name: str, key: str) -> None:
    """Segment size and in-sync replicas. Explicit values are not limited by the one broker."""
    made = creatable_topic(load(overrides={key: "3000000" if "bytes" in key else "3"}), name, 1)
    assert made.configs[CONFIGS[name, key]] == ("3000000" if "bytes" in key else "3")


@pytest.mark.parametrize("name", PARTITIONS)
def test_size_of_an_internal_topic(name: str) -> None:
    """Partitions, and their replicas."""
    made = creatable_topic(load(overrides={PARTITIONS[name]: "7", FACTORS[name]: "2"}), name, 1)
    assert (made.num_partitions, made.replication_factor) == (7, 2)
