"""Static members of streams groups: they leave for a while, and come back to their tasks (KIP-345, KIP-1071)."""

from __future__ import annotations

import pytest

from coordinator.group.cluster import StreamsGroupConfig
from coordinator.group.shard import TimerKey
from coordinator.group.streams.group import StreamsGroupState
from coordinator.group.streams.member import MemberState
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import Endpoint
from tests.support.streams_groups import StreamsHarness, task_map


@pytest.fixture
def two(h: StreamsHarness) -> StreamsHarness:
    """Return a stable group of two static members, a ("one") and b ("two")."""
    h.enter_streams("a", instance_id="one")
    h.enter_streams("b", instance_id="two")
    h.settle("a", "b")
    return h


def test_static_member_comes_back_to_its_tasks(two: StreamsHarness) -> None:
    """Under another member id, without a new epoch of the group, and after a restart of the broker, too."""
    before = two.group.members["a"]
    answer = two.beat("a", -2, instance_id="one")
    assert (answer.member_id, answer.member_epoch, answer.status) == ("a", -2, [])
    assert two.group.state is StreamsGroupState.RECONCILING
    assert two.group.epoch == before.epoch
    h = two.reloaded()
    answer = h.enter_streams("c", instance_id="one", process_id="process-a")
    after = h.group.members["c"]
    assert task_map(answer.active_tasks) == {each: sorted(tasks) for each, tasks in before.assigned.active.items()}
    assert (answer.member_epoch, h.group.epoch) == (before.epoch, before.epoch)
    assert after.assigned.tasks == before.assigned.tasks
    assert set(h.group.members) == set(h.group.targets) == {"b", "c"}
    assert h.group.state is StreamsGroupState.STABLE
    assert h.reloaded().group.members == h.group.members
    h.beat("c", -1, instance_id="one")
    assert set(h.group.members) == {"b"}
    assert h.group.static_member("one") is None


def test_instance_ids_fence(two: StreamsHarness) -> None:
    def refused(member_id: str, epoch: int, instance_id: str) -> tuple[ErrorCode, str | None]:
        answer = two.beat(member_id, epoch, instance_id=instance_id)
        return ErrorCode(answer.error_code), answer.error_message

    answer = two.enter_streams("c", instance_id="one")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member c with instance id one cannot join the group because the instance id is owned by a member.",
    )
    fenced = (ErrorCode.FENCED_INSTANCE_ID, "Static member c with instance id one was fenced by member a.")
    assert [refused("c", epoch, "one") for epoch in (3, -1, -2)] == [fenced] * 3
    unknown = (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id three is unknown.")
    assert [refused("c", epoch, "three") for epoch in (3, -1, -2)] == [unknown] * 3
    two.beat("a", -2, instance_id="one")
    assert refused("a", 3, "one")[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_only_changes_that_move_tasks_bump_the_epoch(two: StreamsHarness) -> None:
    epoch = two.group.epoch
    endpoint = Endpoint(host="h", port=1)
    two.beat("a", -2, instance_id="one")
    two.enter_streams("c", instance_id="one", process_id="process-a", rebalance_timeout_ms=7, user_endpoint=endpoint)
    assert two.group.epoch == epoch
    assert two.group.members["c"].endpoint is not None
    two.beat("c", -2, instance_id="one")
    two.enter_streams("d", instance_id="one", process_id="process-d")
    assert two.group.epoch == epoch + 1
    assert two.group.members["d"].endpoint is None


def test_member_that_does_not_come_back_is_removed(two: StreamsHarness) -> None:
    """After its session timeout, which a member in its place has of its own."""
    two.beat("a", -2, instance_id="one")
    two.advance(44_000)
    two.follow("b")
    two.enter_streams("c", instance_id="one", process_id="process-a")
    two.advance(1_000)
    assert set(two.group.members) == {"b", "c"}
    two.beat("c", -2, instance_id="one")
    two.follow("b")
    two.advance(44_000)
    assert set(two.group.members) == {"b"}


def test_left_member_need_not_give_up_its_tasks_in_time(h: StreamsHarness) -> None:
    h.enter_streams("a", instance_id="one", rebalance_timeout_ms=1_000)
    h.enter_streams("b")
    h.follow("a")
    assert h.group.members["a"].state is MemberState.UNREVOKED_TASKS
    h.beat("a", -2, instance_id="one")
    assert h.group.members["a"].revoking.is_empty
    assert TimerKey("rebalance", "g", "a") in h.timers
    h.advance(1_001)
    assert set(h.group.members) == {"a", "b"}


def test_endpoints_of_replaced_members_are_left_out(h: StreamsHarness) -> None:
    endpoint = Endpoint(host="h", port=1)
    h.enter_streams("a", instance_id="one", user_endpoint=endpoint)
    epoch = h.follow("a").endpoint_information_epoch
    h.beat("a", -2, instance_id="one")
    answer = h.enter_streams("c", instance_id="one", process_id="process-a", user_endpoint=endpoint)
    assert [each.user_endpoint.host for each in answer.partitions_by_user_endpoint] == ["h"]
    assert answer.endpoint_information_epoch == epoch
    h.beat("c", -2, instance_id="one")
    answer = h.enter_streams("d", instance_id="one")
    assert (answer.partitions_by_user_endpoint, answer.endpoint_information_epoch) == ([], epoch + 1)


def test_replacement_during_the_assignment_interval(two: StreamsHarness) -> None:
    """The member in the place of another one has its target, although the next targets have to wait."""
    two.topics.streams = StreamsGroupConfig(initial_rebalance_delay_ms=0, assignment_interval_ms=1_000)
    before = two.group.members["a"].assigned.tasks
    two.beat("a", -2, instance_id="one")
    answer = two.enter_streams("c", instance_id="one", process_id="process-c")
    assert two.group.epoch > two.group.target_epoch
    assert two.group.members["c"].assigned.tasks == before
    assert answer.member_epoch == two.group.target_epoch


def test_failed_replacement_changes_nothing(two: StreamsHarness) -> None:
    two.beat("a", -2, instance_id="one")
    before = dict(two.group.members)
    two.failure = ErrorCode.NOT_COORDINATOR
    assert two.enter_streams("c", instance_id="one").error_code == ErrorCode.NOT_COORDINATOR
    assert (two.group.members, two.group.static_members) == (before, {"one": "a", "two": "b"})


def test_fenced_member_changes_nothing(h: StreamsHarness) -> None:
    """In Kafka 4.4.0 the member with the instance id then loses its tasks, if the group is in a rebalance."""
    h.enter_streams("a", instance_id="one")
    h.enter_streams("b")
    target = h.group.targets["a"]
    assert h.beat("x", 2, active={}, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert h.enter_streams("x", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    h.settle("a", "b")
    assert h.group.members["a"].assigned.tasks == target


def test_member_may_change_its_instance_id(two: StreamsHarness) -> None:
    two.enter_streams("a", instance_id="three")
    assert two.group.static_members == {"three": "a", "two": "b"}
    two.follow("a")
    assert two.group.members["a"].instance_id == "three"
