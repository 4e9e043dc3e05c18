"""Streams groups: when targets are computed; topologies in the cluster, shutdown, endpoints (KIP-1071)."""

from __future__ import annotations

from coordinator.group.cluster import StreamsGroupConfig
from coordinator.group.streams.configured import Status
from coordinator.group.streams.endpoints import endpoint_partitions
from coordinator.group.streams.group import StreamsGroupState
from coordinator.group.streams.records import StreamsRecord, TargetEpoch
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import Endpoint
from tests.support.streams_groups import (
    WORD_COUNT,
    StreamsHarness,
    statuses,
    subtopology,
    task_map,
    topology,
)

# -- when targets are computed -----------------------------------------------------------------------------------------


def test_first_targets_wait_for_more_members(h: StreamsHarness) -> None:
    h.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=3_000, assignment_interval_ms=0)
    answer = h.enter_streams("a")
    assert (answer.member_epoch, answer.active_tasks, statuses(answer)) == (1, [], [Status.ASSIGNMENT_DELAYED])
    assert answer.status[0].status_detail == "Assignment delayed due to the configured initial rebalance delay."
    assert h.group.state is StreamsGroupState.ASSIGNING
    h.enter_streams("b")
    h.follow("a")
    h.advance(3_000)
    assert h.group.target_epoch == h.group.epoch
    assert task_map(h.follow("a").active_tasks) == {"0": [0, 2], "1": [1]}
    assert task_map(h.follow("b").active_tasks) == {"0": [1], "1": [0]}


def test_group_that_becomes_empty_waits_again(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.beat("a", -1)
    h.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=3_000, assignment_interval_ms=0)
    assert statuses(h.enter_streams("a")) == [Status.ASSIGNMENT_DELAYED]
    h.beat("a", -1)
    h.advance(3_000)
    assert h.group.is_empty


def test_delay_ends_before_the_topology_is_known(h: StreamsHarness) -> None:
    """The first heartbeat creates the group, and the second one configures its topology."""
    h.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=3_000, assignment_interval_ms=0)
    h.enter_streams("a")
    h.advance(3_000)
    assert h.group.target_epoch < h.group.epoch
    assert h.follow("a").member_epoch == 2


def test_targets_are_not_computed_more_often_than_the_interval(h: StreamsHarness) -> None:
    h.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=0, assignment_interval_ms=1_000)
    h.enter_streams("a")
    answer = h.enter_streams("b")
    assert (answer.member_epoch, statuses(answer)) == (2, [Status.ASSIGNMENT_DELAYED])
    assert answer.status[0].status_detail == "Assignment delayed due to the configured assignment interval."
    h.advance(1_000)
    assert h.follow("a").member_epoch == 2
    assert h.group.target_epoch == 3


def test_number_of_standbys_is_followed(h: StreamsHarness) -> None:
    h.enter_streams("a", WORD_COUNT)
    h.make_topics()
    h.enter_streams("b", WORD_COUNT)
    h.settle("a", "b")
    assert not h.group.members["a"].assigned.standby
    h.topics.streams = StreamsGroupConfig(
        initial_rebalance_delay_ms=0, assignment_interval_ms=0, num_standby_replicas=1
    )
    epoch = h.group.epoch
    h.settle("a", "b")
    assert h.group.epoch == epoch + 1
    standbys = [h.group.members[each].assigned.standby.get("1", frozenset()) for each in "ab"]
    actives = [h.group.members[each].assigned.active.get("1", {}).keys() for each in "ab"]
    assert sorted(standbys[0] | standbys[1]) == [0, 1, 2]
    assert standbys[0].isdisjoint(actives[0])
    assert standbys[1].isdisjoint(actives[1])


# -- topologies in the cluster -----------------------------------------------------------------------------------------


def test_internal_topics_are_requested_until_they_exist(h: StreamsHarness) -> None:
    answer = h.enter_streams("m", WORD_COUNT)
    assert (answer.active_tasks, statuses(answer)) == ([], [Status.MISSING_INTERNAL_TOPICS])
    wanted = {name: (topic.partitions, topic.configs) for name, topic in h.missing.items()}
    assert wanted == {"app-rep": (3, ()), "app-log": (3, (("cleanup.policy", "compact"),))}
    assert h.group.state is StreamsGroupState.NOT_READY
    assert statuses(h.follow("m")) == [Status.MISSING_INTERNAL_TOPICS]
    assert h.missing
    h.make_topics()
    answer = h.follow("m")
    assert (task_map(answer.active_tasks), answer.status) == ({"0": [0, 1, 2], "1": [0, 1, 2]}, [])
    assert h.group.state is StreamsGroupState.STABLE
    assert not h.missing


def test_lost_source_removes_its_tasks(h: StreamsHarness) -> None:
    h.enter_streams("m")
    h.topics.remove("u")
    answer = h.follow("m")
    assert statuses(answer) == [Status.MISSING_SOURCE_TOPICS]
    assert answer.status[0].status_detail == "Source topics u are missing."
    assert task_map(answer.active_tasks) == {}
    assert h.group.state is StreamsGroupState.NOT_READY


def test_unrelated_topics_change_nothing(h: StreamsHarness) -> None:
    h.enter_streams("m")
    h.follow("m")
    before = len(h.log)
    h.topics.put("other", 1)
    h.follow("m")
    assert len(h.log) == before
    h.topics.put("t", 4)
    assert task_map(h.follow("m").active_tasks) == {"0": [0, 1, 2, 3], "1": [0, 1]}


# -- shutdown, endpoints -----------------------------------------------------------------------------------------------


def test_shutdown_is_sent_until_no_member_is_left(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    answer = h.follow("a", shutdown_application=True)
    assert statuses(answer) == [Status.SHUTDOWN_APPLICATION]
    assert answer.status[0].status_detail == (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    )
    h.follow("b", shutdown_application=True)
    assert "member a " in h.follow("b").status[0].status_detail
    h.beat("a", -1)
    assert statuses(h.follow("b")) == [Status.SHUTDOWN_APPLICATION]
    h.beat("b", -1, shutdown_application=True)
    assert h.enter_streams("c").status == []


def test_leaving_member_may_request_a_shutdown(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    h.beat("a", -1, shutdown_application=True)
    assert "member a " in h.follow("b").status[0].status_detail


def test_endpoints_are_sent_when_the_epoch_differs(h: StreamsHarness) -> None:
    h.topics.streams = StreamsGroupConfig(
        initial_rebalance_delay_ms=0, assignment_interval_ms=0, num_standby_replicas=1
    )
    h.enter_streams("a", WORD_COUNT, user_endpoint=Endpoint(host="a", port=1))
    h.make_topics()
    h.enter_streams("b", WORD_COUNT, user_endpoint=Endpoint(host="b", port=2))
    h.settle("a", "b")
    answer = h.follow("a", endpoint_information_epoch=0)
    endpoints = {each.user_endpoint.host: each for each in answer.partitions_by_user_endpoint}
    assert endpoints.keys() == {"a", "b"}
    actives = {
        host: sorted((p.topic, *p.partitions) for p in each.active_partitions) for host, each in endpoints.items()
    }
    assert {topic for topic, *_ in actives["a"]} == {"t", "app-rep"}
    assert sorted(p for host in endpoints for topic, *ps in actives[host] if topic == "t" for p in ps) == [0, 1, 2]
    assert [p.topic for p in endpoints["b"].standby_partitions] == ["app-rep"]
    assert (
        h.follow("a", endpoint_information_epoch=answer.endpoint_information_epoch).partitions_by_user_endpoint is None
    )


def test_endpoint_of_topics_with_fewer_partitions(h: StreamsHarness) -> None:
    h.enter_streams("a", topology(subtopology("0", ["t", "u"])), user_endpoint=Endpoint(host="a", port=1))
    (endpoints,) = h.follow("a").partitions_by_user_endpoint
    assert {p.topic: p.partitions for p in endpoints.active_partitions} == {"t": [0, 1, 2], "u": [0, 1]}


def test_endpoint_while_sources_are_missing(h: StreamsHarness) -> None:
    """Endpoints are left out; Kafka 4.4.0 fails then."""
    answer = h.enter_streams("a", topology(subtopology("0", ["x"])), user_endpoint=Endpoint(host="a", port=1))
    assert statuses(answer) == [Status.MISSING_SOURCE_TOPICS]
    assert answer.partitions_by_user_endpoint[0].active_partitions == []


def test_endpoints_without_removed_tasks_and_topics(h: StreamsHarness) -> None:
    h.enter_streams("a", user_endpoint=Endpoint(host="a", port=1))
    h.follow("a")
    configured = h.group.soft.configured
    assert configured is not None
    assert configured.subtopologies is not None
    h.topics.remove("t")
    endpoints = endpoint_partitions(h.group.members["a"], {"0": configured.subtopologies["0"]}, h.topics)
    assert endpoints.active_partitions == []


# -- classic requests, unload ------------------------------------------------------------------------------------------


def test_classic_requests_to_a_streams_group(h: StreamsHarness) -> None:
    """They are rejected while it has members; afterwards classic members replace it."""
    h.enter_streams("m")
    assert h.join().code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("m", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.leave(("m", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    h.beat("m", -1)
    assert h.commit({("t", 0): 1}) is ErrorCode.NONE
    assert h.join(member_id="x").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.join().code is ErrorCode.MEMBER_ID_REQUIRED
    assert h.shard.classic("g") is not None
    assert h.reloaded().shard.offsets.get("g", "t", 0) is not None


def test_records_of_another_kind_of_group_are_ignored(h: StreamsHarness) -> None:
    h.stable_group()
    h.shard.replay(StreamsRecord("g", 20, "", TargetEpoch(3, 0)), 90)
    h.shard.replay(StreamsRecord("x", 20, "", None), 91)
    assert h.shard.classic("g") is not None
    assert "x" not in h.shard.groups


def test_unloaded_shard_has_no_deadlines(h: StreamsHarness) -> None:
    h.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=3_000)
    h.enter_streams("m")
    h.run(lambda effects: h.shard.unload(h.now, effects))
    assert not len(h.timers)
