"""Moves of replicas between log directories: Kafka's lines, and requests until the replica is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka import TopicPartitionReplica
from kafka.errors import LogDirNotFoundError, NoError, ReplicaNotAvailableError

from pybroker.cli.client.assignments import Replica
from pybroker.cli.client.directory_moves import Location, MoveState, back, find_states, is_over, start_moves, state_of
from pybroker.cli.client.errors import CommandError

HERE, THERE = ("orders", 0, 1), ("audit", 3, 2)


class Brokers:
    """Answer the two requests: with errors in turn, and with locations."""

    def __init__(self, *errors: Mapping[Replica, Any], **locations: Location) -> None:
        self.errors = list(errors)
        self.asked: list[dict[Replica, str]] = []
        self.locations = locations

    def ask(self, method: str, *arguments: Any) -> Any:
        if method == "alter_replica_log_dirs":
            (wanted,) = arguments
            self.asked.append(wanted)
            errors = self.errors.pop(0) if self.errors else {}
            return {TopicPartitionReplica(*each): errors.get(each, NoError) for each in wanted}
        assert arguments == ({"orders": [0]}, [1])
        current, future = self.locations["orders"]
        found = [(current, False), (future, True)]
        directories = [
            {
                "log_dir": path,
                "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "is_future_key": is_future}]}],
            }
            for path, is_future in found
            if path is not None
        ]
        return [{"broker": 1, "log_dirs": directories}]


def test_replicas_that_are_not_there_yet_are_asked_for_again() -> None:
    brokers: Any = Brokers({THERE: ReplicaNotAvailableError}, {THERE: ReplicaNotAvailableError})
    assert start_moves(brokers, {THERE: "/b", HERE: "/a"}, 5) == [
        "Successfully started moving log directory to /a for replica orders-0 with broker 1 ",
        "Successfully started moving log directory to /b for replica audit-3 with broker 2 ",
    ]
    assert brokers.asked == [{HERE: "/a", THERE: "/b"}, {THERE: "/b"}, {THERE: "/b"}]


def test_replicas_that_never_come() -> None:
    brokers: Any = Brokers(*[{HERE: ReplicaNotAvailableError, THERE: ReplicaNotAvailableError}] * 9)
    with pytest.raises(CommandError, match="moves could be started for: orders-0-1,audit-3-2"):
        start_moves(brokers, {THERE: "/b", HERE: "/a"}, 0)


def test_other_errors_end_the_command() -> None:
    brokers: Any = Brokers({HERE: LogDirNotFoundError})
    with pytest.raises(CommandError, match="Failed to alter dir for orders-0-1: "):
        start_moves(brokers, {HERE: "/nowhere"}, 5)


@pytest.mark.parametrize(
    ("location", "state", "line"),
    [
        (Location("/a"), MoveState.COMPLETE, "Reassignment of replica orders-0-1 completed successfully."),
        (Location("/b", "/a"), MoveState.MOVING, "Reassignment of replica orders-0-1 is still in progress."),
        (
            Location("/b", "/c"),
            MoveState.ELSEWHERE,
            "Partition orders-0 on broker 1 is being moved to log dir /c instead of /a.",
        ),
        (
            Location("/b"),
            MoveState.ENDED,
            "Partition orders-0 on broker 1 is not being moved from log dir /b to /a.",
        ),
        (
            Location(),
            MoveState.MISSING,
            "Partition orders-0 is not found in any live log dir on broker 1. There is likely an offline log directory"
            " on the broker.",
        ),
    ],
)
def test_states_of_moves(location: Location, state: MoveState, line: str) -> None:
    """With the lines of Kafka's tool; a throttle stays until all moves are over."""
    assert state_of(HERE, "/a", location) == (state, line)
    brokers: Any = Brokers(orders=location)
    assert find_states(brokers, {HERE: "/a"}) == {HERE: (state, line)}
    assert is_over(state) is (state in (MoveState.COMPLETE, MoveState.ENDED))
    assert back(brokers, {HERE: "/a"}) == ({HERE: "/b"} if location.future else {})


def test_nobody_is_asked_about_nothing() -> None:
    brokers: Any = Brokers()
    assert (start_moves(brokers, {}, 5), find_states(brokers, {}), brokers.asked) == ([], {}, [])
