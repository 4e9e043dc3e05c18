"""StreamsGroupHeartbeat: rejected requests, and members from joining to leaving (KIP-1071)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.group.deadlines import on_deadline
from coordinator.group.settings import GroupSettings, StreamsSettings
from coordinator.group.shard import GroupEffects, TimerKey
from coordinator.group.streams.configured import Status
from coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from coordinator.group.streams.member import MemberState
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import KeyValue
from tests.support.streams_groups import (
    PLAIN,
    StreamsHarness,
    internal,
    request,
    statuses,
    subtopology,
    task_map,
    topology,
)


def code(answer: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(answer.error_code), answer.error_message


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "message"),
    [
        ("", 1, {}, "MemberId can't be empty."),
        ("m", 1, {"group_id": " \t"}, "GroupId can't be empty."),
        ("m", 1, {"rack_id": ""}, "RackId can't be empty."),
        ("m", 1, {"instance_id": " "}, "InstanceId can't be empty."),
        ("m", -2, {}, "InstanceId can't be null."),
        ("m", -3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ("m", 0, {"told": PLAIN, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ("m", 0, {"told": PLAIN, "active": {"0": [0]}}, "ActiveTasks must be empty when (re-)joining."),
        ("m", 0, {"told": PLAIN, "standby": {"0": [0]}}, "StandbyTasks must be empty when (re-)joining."),
        ("m", 0, {}, "Topology must be non-null when (re-)joining."),
        ("m", 1, {"told": PLAIN}, "Topology can only be provided when (re-)joining."),
        (
            "m",
            0,
            {"told": topology(subtopology("0", ["t"], expressions=["x.*"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_malformed_requests_are_rejected(
    h: StreamsHarness, member_id: str, epoch: int, fields: dict[str, Any], message: str
) -> None:
    assert code(h.beat(member_id, epoch, **fields)) == (ErrorCode.INVALID_REQUEST, message)
    assert not h.log


def test_roles_of_tasks_are_sent_together(h: StreamsHarness) -> None:
    sent = request("m", 1, active={})
    answer = h.beat("m", 1, active={"0": []}, standby_tasks=None)
    assert sent["warmup_tasks"] == []
    assert code(answer) == (ErrorCode.INVALID_REQUEST, "If one task-type is non-null, all must be non-null.")


def test_changelogs_must_not_have_partition_counts(h: StreamsHarness) -> None:
    answer = h.enter_streams("m", topology(subtopology("0", ["t"], changelogs=[internal("log", 3)])))
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_members_of_no_group_are_unknown(h: StreamsHarness) -> None:
    assert code(h.beat("m", 3)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Streams group g not found.")
    assert code(h.beat("m", -1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    h.enter_streams("m")
    unknown = (ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")
    assert [code(h.beat("x", epoch)) for epoch in (3, -1)] == [unknown] * 2


def test_live_group_of_another_type_is_not_found(h: StreamsHarness) -> None:
    h.stable_group()
    assert code(h.enter_streams("m")) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")
    assert code(h.beat("m", -1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def test_empty_classic_group_is_replaced(h: StreamsHarness) -> None:
    h.commit({("t", 0): 1})
    assert h.enter_streams("m").error_code == ErrorCode.NONE
    assert isinstance(h.shard.groups["g"], StreamsGroup)
    assert h.reloaded().shard.offsets.get("g", "t", 0) is not None


def test_group_is_full() -> None:
    h = StreamsHarness(GroupSettings(streams=StreamsSettings(max_size=1)))
    h.enter_streams("m")
    message = "The streams group has reached its maximum capacity of 1 members."
    assert code(h.enter_streams("n")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    assert code(h.enter_streams("n", instance_id="i")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    assert h.follow("m").error_code == ErrorCode.NONE
    assert h.enter_streams("m", instance_id="i").error_code == ErrorCode.NONE
    h.beat("m", -2, instance_id="i")
    assert h.enter_streams("n", instance_id="i", process_id="process-m").error_code == ErrorCode.NONE


def test_epochs_are_fenced(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    h.settle("a", "b")
    epoch = h.group.members["a"].epoch
    greater, smaller = h.beat("a", epoch + 1, active={}), h.beat("a", epoch - 2, active={})
    assert (greater.error_code, smaller.error_code) == (ErrorCode.FENCED_MEMBER_EPOCH,) * 2
    assert f"greater member epoch ({epoch + 1})" in greater.error_message
    assert f"smaller member epoch ({epoch - 2})" in smaller.error_message


def test_previous_epoch_is_accepted_with_known_tasks(h: StreamsHarness) -> None:
    """The response with the new epoch was lost."""
    h.enter_streams("a")
    h.enter_streams("b")
    h.follow("a")
    h.follow("a")
    member = h.group.members["a"]
    assert member.epoch > member.previous_epoch
    assert h.beat("a", member.previous_epoch, active=member.assigned.active).error_code == ErrorCode.NONE
    for fields in ({}, {"active": {"9": [0]}}, {"active": {"0": [7]}}):
        answer = h.beat("a", member.previous_epoch, **fields)
        assert answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.INVALID_REQUEST)


def test_tasks_must_be_the_topology_s(h: StreamsHarness) -> None:
    h.enter_streams("m")
    epoch = h.group.members["m"].epoch
    message = "Subtopology 9 does not exist in the topology."
    assert code(h.beat("m", epoch, active={"9": [0]})) == (ErrorCode.INVALID_REQUEST, message)
    message = "Task 3 for subtopology 0 is invalid. Number of tasks for this subtopology: 3"
    assert code(h.beat("m", epoch, active={"0": [3]})) == (ErrorCode.INVALID_REQUEST, message)


def test_topology_does_not_change(h: StreamsHarness) -> None:
    """Not even while the group is empty. An older topology gets a status."""
    h.enter_streams("m", topology(subtopology("0", ["t"]), epoch=1))
    refused = (ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    assert code(h.enter_streams("n", topology(subtopology("0", ["u"]), epoch=1))) == refused
    assert code(h.enter_streams("n", topology(subtopology("0", ["t"]), epoch=2))) == refused
    answer = h.enter_streams("n", topology(subtopology("0", ["u"]), epoch=0))
    assert statuses(answer) == [Status.STALE_TOPOLOGY]
    assert answer.status[0].status_detail == "The member's topology epoch 0 is behind the group's topology epoch 1."
    h.beat("m", -1)
    h.beat("n", -1)
    assert code(h.enter_streams("m", topology(subtopology("0", ["u"]), epoch=1))) == refused


def test_order_of_subtopologies_does_not_matter(h: StreamsHarness) -> None:
    h.enter_streams("m", PLAIN)
    assert h.enter_streams("n", topology(*reversed(PLAIN.subtopologies))).error_code == ErrorCode.NONE


def test_group_without_topology_is_rejected(h: StreamsHarness) -> None:
    """The log has lost the topology's record."""
    h.enter_streams("m")
    h.group.topology = None
    assert code(h.follow("m")) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


# -- the way of members ------------------------------------------------------------------------------------------------


def test_first_member_gets_all_partitions(h: StreamsHarness) -> None:
    answer = h.enter_streams("m")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert task_map(answer.active_tasks) == {"0": [0, 1, 2], "1": [0, 1]}
    assert (answer.standby_tasks, answer.warmup_tasks, answer.status) == ([], [], [])
    assert h.group.state is StreamsGroupState.STABLE
    before = len(h.log)
    assert h.follow("m").active_tasks is None
    assert len(h.log) == before


def test_second_member_waits_for_revoked_tasks(h: StreamsHarness) -> None:
    h.enter_streams("a")
    joined = h.enter_streams("b")
    assert (joined.member_epoch, joined.active_tasks) == (3, [])
    assert h.group.members["b"].state is MemberState.UNRELEASED_TASKS
    answer = h.follow("a")
    kept = task_map(answer.active_tasks)
    assert (answer.member_epoch, kept) == (2, {"0": [0, 1], "1": [0]})
    assert h.group.members["a"].state is MemberState.UNREVOKED_TASKS
    assert h.group.state is StreamsGroupState.RECONCILING
    # It still reports all tasks, or reports none: nothing changes.
    assert h.beat("a", 2, active={"0": [0, 1, 2], "1": [0, 1]}).member_epoch == 2
    assert h.beat("a", 2).member_epoch == 2
    assert h.beat("a", 2, active=kept).member_epoch == 3
    assert task_map(h.follow("b").active_tasks) == {"0": [2], "1": [1]}
    assert h.group.state is StreamsGroupState.STABLE


def test_member_that_does_not_revoke_is_fenced(h: StreamsHarness) -> None:
    h.enter_streams("a", rebalance_timeout_ms=1_000)
    h.enter_streams("b")
    h.follow("a")
    assert TimerKey("rebalance", "g", "a") in h.timers
    h.advance(1_001)
    assert set(h.group.members) == {"b"}
    assert h.reloaded().group.members == h.group.members


def test_loaded_member_has_its_rebalance_timeout_again(h: StreamsHarness) -> None:
    h.enter_streams("a", rebalance_timeout_ms=1_000)
    h.enter_streams("b")
    h.follow("a")
    other = h.reloaded()
    other.advance(1_001)
    assert set(other.group.members) == {"b"}


def test_member_that_revokes_has_no_deadline(h: StreamsHarness) -> None:
    h.enter_streams("a", rebalance_timeout_ms=1_000)
    h.enter_streams("b")
    h.follow("a")
    h.follow("a")
    assert TimerKey("rebalance", "g", "a") not in h.timers
    h.run(lambda effects: on_passed(h, effects))
    assert set(h.group.members) == {"a", "b"}


def on_passed(h: StreamsHarness, effects: GroupEffects) -> None:
    """Act on a deadline whose cause has passed."""
    for key in (TimerKey("rebalance", "g", "a"), TimerKey("rebalance", "g", "x"), TimerKey("session", "g", "x")):
        on_deadline(h.shard, key, h.now, effects)


def test_silent_member_is_fenced(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.advance(44_999)
    h.follow("a")
    h.advance(45_000)
    assert h.group.is_empty
    assert h.group.state is StreamsGroupState.EMPTY
    assert TimerKey("session", "g", "a") not in h.timers


def test_fencing_is_retried_after_a_failed_write(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.failure = ErrorCode.NOT_COORDINATOR
    h.advance(45_000)
    assert not h.group.is_empty
    h.failure = ErrorCode.NONE
    h.advance(500)
    assert h.group.is_empty


def test_loaded_members_have_a_session(h: StreamsHarness) -> None:
    h.enter_streams("a")
    other = h.reloaded()
    other.advance(45_000)
    assert other.group.is_empty


def test_leaving_bumps_the_epoch(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    epoch = h.group.epoch
    answer = h.beat("b", -1)
    assert (answer.member_id, answer.member_epoch, answer.status) == ("b", -1, [])
    assert h.group.epoch == epoch + 1
    h.settle("a")
    assert h.group.members["a"].assigned.active["0"].keys() == {0, 1, 2}


def test_rejoining_member_keeps_its_place(h: StreamsHarness) -> None:
    h.enter_streams("a")
    again = h.enter_streams("a")
    assert (again.member_epoch, task_map(again.active_tasks)) == (2, {"0": [0, 1, 2], "1": [0, 1]})


def test_fields_that_are_not_sent_are_kept(h: StreamsHarness) -> None:
    h.enter_streams("a", rack_id="r", client_tags=[KeyValue(key="z", value="1")])
    h.follow("a")
    member = h.group.members["a"]
    assert (member.rack_id, member.client_tags, member.process_id) == ("r", {"z": "1"}, "process-a")
    assert (member.client_id, member.client_host, member.rebalance_timeout_ms) == ("client", "/127.0.0.1", 30_000)
    epoch = h.group.epoch
    h.follow("a", rack_id="s", process_id="p", client_tags=[], rebalance_timeout_ms=7)
    member = h.group.members["a"]
    assert (member.rack_id, member.client_tags, member.process_id, member.rebalance_timeout_ms) == ("s", {}, "p", 7)
    assert h.group.epoch == epoch + 1


def test_member_in_an_unknown_state_is_fenced(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    h.group.members["a"] = replace(h.group.members["a"], state=MemberState.UNKNOWN)
    assert h.beat("a", 2, active={"0": [0]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("a", 2, active={}).member_epoch == 3


def test_failed_write_changes_nothing(h: StreamsHarness) -> None:
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.enter_streams("a").error_code == ErrorCode.NOT_COORDINATOR
    assert h.shard.groups == {}
    h.failure = ErrorCode.NONE
    h.enter_streams("a")
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.enter_streams("b").error_code == ErrorCode.NOT_COORDINATOR
    assert set(h.group.members) == {"a"}
