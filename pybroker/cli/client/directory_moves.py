"""Moves of replicas between log directories of their brokers, as kafka-reassign-partitions makes them (KIP-113)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pybroker.cli.client.assignments import Place, Replica, name_of
from pybroker.cli.client.errors import CommandError

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

#: The log directory that each replica shall be in.
Directories: TypeAlias = Mapping[Replica, str]

#: Kafka's key of the throttle of such moves: bytes per second of a broker.
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_RETRY_S = 0.1


class Location(NamedTuple):
    """The directory of a replica, and the one that it moves to. None: there is none."""

    current: str | None = None
    future: str | None = None


class MoveState(Enum):
    """The state of a move."""

    COMPLETE = "complete"
    MOVING = "moving"
    ELSEWHERE = "moving elsewhere"
    ENDED = "not moving"
    MISSING = "missing"


def start_moves(client: Administration, wanted: Directories, timeout_s: float) -> list[str]:
    """Ask the brokers to move replicas, again and again while they do not have them yet. Return Kafka's lines.

    A broker that gets a new replica remembers its directory from the first request on. Raises CommandError for other
    errors, and after the timeout.
    """
    pending, lines = dict(wanted), list[str]()
    ends_at_s = time.monotonic() + timeout_s
    while pending:
        for replica in _started(client, pending):
            path = pending.pop(replica)
            lines.append(
                f"Successfully started moving log directory to {path} for replica {name_of(replica[:2])}"
                f" with broker {replica[2]} "
            )
        if pending and time.monotonic() >= ends_at_s:
            names = ",".join(map(_name, sorted(pending, key=_by_broker)))
            raise CommandError(
                f"Timed out before log directory move{'s' * (len(pending) > 1)} could be started for: {names}"
            )
        if pending:
            time.sleep(_RETRY_S)
    return lines


def _started(client: Administration, wanted: Directories) -> list[Replica]:
    from kafka.errors import NoError, ReplicaNotAvailableError

    started = []
    answers = client.ask("alter_replica_log_dirs", dict(wanted))
    for answered, error in answers.items():
        replica = answered.topic, answered.partition, answered.broker_id
        if error is NoError:
            started.append(replica)
        elif error is not ReplicaNotAvailableError:
            reason = getattr(error, "description", "") or error.__name__
            raise CommandError(f"Failed to alter dir for {_name(replica)}: {reason}", error.errno)
    return sorted(started, key=_by_broker)


def find_locations(client: Administration, replicas: Iterable[Replica]) -> dict[Replica, Location]:
    """Ask the brokers of replicas for their directories. Raises CommandError."""
    wanted = set(replicas)
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted({each[:2] for each in wanted}):
        partitions.setdefault(topic, []).append(index)
    found = dict.fromkeys(wanted, Location())
    if not wanted:
        return found
    for answer in client.ask("describe_log_dirs", partitions, sorted({each[2] for each in wanted})):
        for directory in answer["log_dirs"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    replica = topic["name"], partition["partition_index"], answer["broker"]
                    if replica in found:
                        field = "future" if partition["is_future_key"] else "current"
                        found[replica] = found[replica]._replace(**{field: directory["log_dir"]})
    return found


def state_of(replica: Replica, wanted: str, location: Location) -> tuple[MoveState, str]:
    """Return what has become of a move, and Kafka's line about it."""
    name, broker = name_of(replica[:2]), replica[2]
    if location.current is None:
        return MoveState.MISSING, (
            f"Partition {name} is not found in any live log dir on broker {broker}. There is likely an offline log"
            " directory on the broker."
        )
    if location.future is None and location.current == wanted:
        return MoveState.COMPLETE, f"Reassignment of replica {_name(replica)} completed successfully."
    if location.future is None:
        return MoveState.ENDED, (
            f"Partition {name} on broker {broker} is not being moved from log dir {location.current} to {wanted}."
        )
    if location.future == wanted:
        return MoveState.MOVING, f"Reassignment of replica {_name(replica)} is still in progress."
    return MoveState.ELSEWHERE, (
        f"Partition {name} on broker {broker} is being moved to log dir {location.future} instead of {wanted}."
    )


def find_states(client: Administration, wanted: Directories) -> dict[Replica, tuple[MoveState, str]]:
    """Return the state of each move and Kafka's line, in Kafka's order. Raises CommandError."""
    found = find_locations(client, wanted)
    return {each: state_of(each, wanted[each], found[each]) for each in sorted(wanted, key=_by_broker)}


def is_over(state: MoveState) -> bool:
    """Return whether a move needs its throttle no longer."""
    return state in (MoveState.COMPLETE, MoveState.ENDED)


def back(client: Administration, wanted: Directories) -> dict[Replica, str]:
    """Return the present directories of the replicas that move: a move to there ends theirs. Raises CommandError."""
    found = find_locations(client, wanted)
    return {
        each: location.current
        for each, location in found.items()
        if location.current is not None and location.future is not None
    }


def _by_broker(replica: Replica) -> tuple[int, Place]:
    return replica[2], replica[:2]


def _name(replica: Replica) -> str:
    return f"{name_of(replica[:2])}-{replica[2]}"
