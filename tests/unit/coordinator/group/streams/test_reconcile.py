"""Steps of a member to its target in which a task changes its role (KIP-1071)."""

from __future__ import annotations

import pytest

from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.reconcile import Reconciliation
from coordinator.group.streams.records import current_record, member_record
from coordinator.group.streams.tasks import NO_TASKS, OwnedTasks, Tasks

TASK = {"0": frozenset({0})}
ACTIVE, STANDBY, WARMUP = Tasks(TASK), Tasks(standby=TASK), Tasks(warmup=TASK)
OWNED = {
    "active": OwnedTasks({"0": {0: 4}}),
    "standby": OwnedTasks(standby=TASK),
    "warmup": OwnedTasks(warmup=TASK),
    "nothing": OwnedTasks(),
}


def member(member_id: str, owned: OwnedTasks, process_id: str = "p") -> StreamsMember:
    return StreamsMember(member_id, epoch=4, previous_epoch=4, process_id=process_id, assigned=owned)


def step(*members: StreamsMember, target: Tasks, reported: Tasks | None = None) -> StreamsMember:
    """Let the first member take a step to epoch 5."""
    records = [record for each in members for record in (member_record("g", each), current_record("g", each))]
    group = StreamsGroup("g", records)
    return Reconciliation(5, target, reported, group).step(group.members[members[0].member_id])


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_replica_becomes_active_at_once(role: str) -> None:
    """It is not revoked first, which would close its store."""
    after = step(member("a", OWNED[role]), target=ACTIVE)
    assert (after.state, after.epoch) == (MemberState.STABLE, 5)
    assert (after.assigned, after.revoking.is_empty) == (OwnedTasks({"0": {0: 5}}), True)


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_replica_is_kept_until_the_task_is_free(role: str) -> None:
    has = OWNED[role]
    after = step(member("a", has), member("b", OWNED["active"], "q"), target=ACTIVE)
    assert (after.state, after.epoch, after.assigned) == (MemberState.UNRELEASED_TASKS, 5, has)


def test_replica_is_kept_while_other_tasks_are_revoked() -> None:
    """The member is not at the epoch yet at which the task is active."""
    has = OwnedTasks({"1": {0: 4}}, TASK)
    reported = Tasks({"1": frozenset({0})}, TASK)
    after = step(member("a", has), target=ACTIVE, reported=reported)
    assert (after.state, after.epoch) == (MemberState.UNREVOKED_TASKS, 4)
    assert (after.assigned, after.revoking) == (OWNED["standby"], OwnedTasks({"1": {0: 4}}))


def test_active_task_becomes_a_standby_in_the_step_that_revokes_it() -> None:
    after = step(member("a", OWNED["active"]), target=STANDBY, reported=ACTIVE)
    assert (after.state, after.epoch) == (MemberState.UNREVOKED_TASKS, 4)
    assert (after.assigned, after.revoking) == (OWNED["standby"], OWNED["active"])
    after = step(member("a", OWNED["active"]), target=STANDBY, reported=STANDBY)
    assert (after.state, after.epoch) == (MemberState.STABLE, 5)
    assert (after.assigned, after.revoking) == (OWNED["standby"], OWNED["nothing"])


@pytest.mark.parametrize(("before", "target", "now"), [("standby", WARMUP, "warmup"), ("warmup", STANDBY, "standby")])
def test_replicas_change_their_role_at_once(before: str, target: Tasks, now: str) -> None:
    after = step(member("a", OWNED[before]), target=target)
    assert (after.state, after.epoch) == (MemberState.STABLE, 5)
    assert (after.assigned, after.revoking) == (OWNED[now], OWNED["nothing"])


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
@pytest.mark.parametrize("target", [ACTIVE, STANDBY, WARMUP])
def test_tasks_of_other_threads_of_the_process_are_not_free(role: str, target: Tasks) -> None:
    after = step(member("a", OwnedTasks()), member("b", OWNED[role]), target=target)
    assert (after.state, after.epoch, after.assigned) == (MemberState.UNRELEASED_TASKS, 5, OwnedTasks())
    if target is not ACTIVE or role != "active":
        other = step(member("a", OwnedTasks()), member("b", OWNED[role], "q"), target=target)
        assert (other.state, other.assigned.tasks) == (MemberState.STABLE, target)


def test_tasks_that_are_not_wanted_are_revoked() -> None:
    has = OwnedTasks({"0": {0: 3}}, {"1": frozenset({1})}, {"2": frozenset({2})})
    after = step(member("a", has), target=NO_TASKS)
    assert (after.state, after.assigned, after.revoking) == (MemberState.UNREVOKED_TASKS, OwnedTasks(), has)
    after = step(member("a", has), target=NO_TASKS, reported=NO_TASKS)
    assert (after.state, after.assigned, after.revoking) == (MemberState.STABLE, OwnedTasks(), OwnedTasks())
