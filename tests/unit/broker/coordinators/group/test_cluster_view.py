"""The cluster as groups see it: never older than the metadata."""

from __future__ import annotations

from broker.coordinators.group.cluster_view import AT_HAND, BoundedCache, ClusterView
from coordinator.group.cluster import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig
from metadata.create_partitions import MorePartitions
from metadata.create_topics import NewTopic
from metadata.delete_topics import TopicReference
from metadata.image import ResourceType
from tests.support.controllers import ControllerHarness


def view_of(harness: ControllerHarness) -> ClusterView:
    return ClusterView(harness.metadata, harness.controller, harness.config)


def test_topics_are_current() -> None:
    harness = ControllerHarness()
    view = view_of(harness)
    assert view.topic("t") is None
    first = view.topics_version
    harness.with_topics(NewTopic("t", 1, 1))
    seen = view.topic("t")
    assert seen is not None
    assert (seen.name, seen.partition_count, view.topic_by_id(seen.topic_id)) == ("t", 1, seen)
    assert list(view.topic_names()) == ["t"]
    assert first < view.topics_version == view.new_topics_version == view.version
    harness.controller.create_partitions([MorePartitions("t", 3)])
    again = view.topic("t")
    assert again is not None
    assert (again.partition_count, view.topic_by_id(seen.topic_id)) == (3, again)
    harness.controller.delete_topics([TopicReference("t")])
    assert (view.topic("t"), view.topic_by_id(seen.topic_id)) == (None, None)
    assert view.new_topics_version < view.topics_version == view.version


def test_settings_come_from_group_then_broker_then_default() -> None:
    harness = ControllerHarness({"group.consumer.session.timeout.ms": "46000"})
    view = view_of(harness)
    usual = ConsumerGroupConfig(session_timeout_ms=46_000)
    assert view.consumer_config("g") == view.consumer_config("h") == usual
    assert (view.share_config("g"), view.streams_config("g")) == (ShareGroupConfig(), StreamsGroupConfig())
    changes = {"consumer.heartbeat.interval.ms": "7000", "share.heartbeat.interval.ms": "8000"}
    harness.controller.alter_config(ResourceType.GROUP, "g", changes)
    assert view.consumer_config("g") == ConsumerGroupConfig(46_000, heartbeat_interval_ms=7_000)
    assert view.share_config("g").heartbeat_interval_ms == 8_000
    assert view.consumer_config("h") == usual
    harness.controller.alter_config(ResourceType.GROUP, "g", dict.fromkeys(changes))
    assert view.consumer_config("g") == usual


def test_group_settings_are_limited_by_the_broker() -> None:
    """The limits may have changed since the group's setting was made (KIP-1240)."""
    harness = ControllerHarness(
        {"group.consumer.min.session.timeout.ms": "40000", "group.streams.max.standby.replicas": "1"}
    )
    view = view_of(harness)
    changes = {
        "consumer.session.timeout.ms": "30000",
        "consumer.heartbeat.interval.ms": "20000",
        "share.session.timeout.ms": "61000",
        "streams.num.standby.replicas": "2",
        "streams.initial.rebalance.delay.ms": "900000",
    }
    harness.controller.alter_config(ResourceType.GROUP, "g", changes)
    assert view.consumer_config("g") == ConsumerGroupConfig(40_000, heartbeat_interval_ms=15_000)
    assert view.share_config("g") == ShareGroupConfig(session_timeout_ms=60_000)
    assert view.streams_config("g") == StreamsGroupConfig(initial_rebalance_delay_ms=900_000, num_standby_replicas=1)


def test_dynamic_broker_settings_apply_at_once() -> None:
    harness = ControllerHarness()
    view = view_of(harness)
    assert view.consumer_config("g").assignment_interval_ms == 1_000
    changes = {"group.consumer.assignment.interval.ms": "0", "group.streams.assignment.interval.ms": "5"}
    harness.controller.alter_config(ResourceType.BROKER, "", changes)
    assert view.consumer_config("g").assignment_interval_ms == 0
    assert view.streams_config("g").assignment_interval_ms == 5


def test_cache_is_bounded() -> None:
    kept = BoundedCache[int, int](lambda key: -key)
    for key in range(AT_HAND + 1):
        assert kept[key] == -key
    assert len(kept) == 1
    assert kept[3] == -3
