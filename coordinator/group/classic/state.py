"""The states of a classic group, and from which a group may get into each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """States of a classic group. The values are the names that clients see."""

    EMPTY = "Empty"
    """No members. Keeps its offsets until they expire; a group that only stores offsets is always in this state."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Joins are collected; heartbeats are told to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All joins are answered; waiting for the leader's assignment."""
    STABLE = "Stable"
    """Members have their assignment."""
    DEAD = "Dead"
    """Removed: whoever still holds the group must look for it again."""


LEGAL_FROM: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""State -> the states from which a group may move into it."""


class IllegalTransition(Exception):
    """A move that the table does not have: a mistake of the coordinator, never of a client."""

    def __init__(self, group_id: str, state: GroupState, target: GroupState) -> None:
        super().__init__(f"group {group_id} cannot go from {state.value} to {target.value}")
        self.group_id = group_id
        self.state = state
        self.target = target
