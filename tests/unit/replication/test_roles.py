"""The actions that changes of a partition's registration ask of a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.partition_registration import NO_LEADER, PartitionRegistration
from replication.roles import Action, Role, RoleChange, change_of, role_of

ME, OTHER, THIRD = 1, 2, 3
FIRST, SECOND = bytes([1]) * 16, bytes([2]) * 16


def registered(
    leader: int = ME,
    epoch: int = 5,
    *,
    replicas: tuple[int, ...] = (ME, OTHER),
    isr: tuple[int, ...] = (ME, OTHER),
    partition_epoch: int = 10,
    directory: bytes = FIRST,
) -> PartitionRegistration:
    directories = tuple(directory if each == ME else SECOND for each in replicas)
    return PartitionRegistration(replicas, isr, leader, epoch, partition_epoch, directories)


LEADING, FOLLOWING = registered(), registered(OTHER)
ABSENT = registered(OTHER, replicas=(OTHER, THIRD), isr=(OTHER,))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, LEADING, RoleChange(Action.LEAD, ME, 5, FIRST), id="created and led"),
        pytest.param(None, FOLLOWING, RoleChange(Action.FOLLOW, OTHER, 5, FIRST), id="created and followed"),
        pytest.param(None, ABSENT, RoleChange(Action.NOTHING), id="created elsewhere"),
        pytest.param(ABSENT, FOLLOWING, RoleChange(Action.FOLLOW, OTHER, 5, FIRST), id="added by a reassignment"),
        pytest.param(
            FOLLOWING, registered(ME, 6, partition_epoch=11), RoleChange(Action.LEAD, ME, 6), id="elected leader"
        ),
        pytest.param(
            LEADING, registered(OTHER, 6, partition_epoch=11), RoleChange(Action.FOLLOW, OTHER, 6), id="lost leadership"
        ),
        pytest.param(
            LEADING, registered(ME, 6, partition_epoch=11), RoleChange(Action.LEAD, ME, 6), id="elected once more"
        ),
        pytest.param(
            FOLLOWING,
            registered(OTHER, 6, partition_epoch=11),
            RoleChange(Action.FOLLOW, OTHER, 6),
            id="same leader in a new epoch",
        ),
        pytest.param(
            FOLLOWING,
            registered(NO_LEADER, 6, partition_epoch=11),
            RoleChange(Action.FOLLOW, NO_LEADER, 6),
            id="nobody leads",
        ),
        pytest.param(
            LEADING,
            registered(isr=(ME,), partition_epoch=11),
            RoleChange(Action.UPDATE, ME, 5),
            id="the ISR alone changed",
        ),
        pytest.param(
            FOLLOWING,
            registered(OTHER, directory=SECOND, partition_epoch=11),
            RoleChange(Action.UPDATE, OTHER, 5, SECOND),
            id="another directory",
        ),
        pytest.param(LEADING, LEADING, RoleChange(Action.NOTHING, ME, 5), id="nothing changed"),
        pytest.param(FOLLOWING, ABSENT, RoleChange(Action.REMOVE), id="removed by a reassignment"),
        pytest.param(LEADING, None, RoleChange(Action.DELETE), id="deleted"),
        pytest.param(ABSENT, None, RoleChange(Action.NOTHING), id="deleted elsewhere"),
        pytest.param(registered(ME, 6), LEADING, RoleChange(Action.NOTHING), id="an older leader epoch"),
        pytest.param(
            registered(partition_epoch=11), LEADING, RoleChange(Action.NOTHING), id="an older partition epoch"
        ),
    ],
)
def test_change(old: PartitionRegistration | None, new: PartitionRegistration | None, expected: RoleChange) -> None:
    assert change_of(old, new, ME) == expected


def _registrations() -> st.SearchStrategy[PartitionRegistration | None]:
    replicas = st.lists(st.sampled_from((ME, OTHER, THIRD)), min_size=1, unique=True).map(tuple)
    return st.none() | replicas.flatmap(
        lambda each: st.builds(
            PartitionRegistration,
            replicas=st.just(each),
            isr=st.just(each),
            leader=st.sampled_from((NO_LEADER, *each)),
            leader_epoch=st.integers(0, 2),
            partition_epoch=st.integers(0, 2),
            directories=st.just((FIRST,) * len(each)),
        )
    )


@given(st.lists(_registrations(), max_size=8))
def test_a_broker_that_obeys_has_the_role_of_the_metadata(states: list[PartitionRegistration | None]) -> None:
    """Any sequence of states: the actions lead to the last state's role, and no epoch falls while a replica stays."""
    role, epoch, current = Role.ABSENT, -1, None
    for new in states:
        change = change_of(current, new, ME)
        if change.action in (Action.LEAD, Action.FOLLOW):
            assert change.leader_epoch >= epoch
            role = Role.LEADING if change.action is Action.LEAD else Role.FOLLOWING
            epoch = change.leader_epoch
        elif change.action in (Action.REMOVE, Action.DELETE):
            role, epoch = Role.ABSENT, -1
        is_older = change.action is Action.NOTHING and role_of(current, ME) is not Role.ABSENT and new != current
        current = current if is_older else new
        assert role is role_of(current, ME)
