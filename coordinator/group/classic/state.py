"""The states of a classic group, and the allowed transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """States of a classic group. The values are the names that clients see."""

    EMPTY = "Empty"
    """No members. Offsets stay until they expire. A group that only stores offsets is always in this state."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Joins are collected. Heartbeats get REBALANCE_IN_PROGRESS."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All joins are answered. The group waits for the leader's assignment."""
    STABLE = "Stable"
    """Members have their assignment."""
    DEAD = "Dead"
    """Removed. The group's clients have to find the coordinator again."""


LEGAL_FROM: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""State -> the states from which a group may enter it."""


class IllegalTransition(Exception):
    """A transition that the table does not allow: an error of the coordinator, never of a client."""

    def __init__(self, group_id: str, state: GroupState, target: GroupState) -> None:
        super().__init__(f"group {group_id} cannot go from {state.value} to {target.value}")
        self.group_id = group_id
        self.state = state
        self.target = target
