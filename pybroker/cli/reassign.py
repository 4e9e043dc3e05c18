"""`pybroker reassign`: move replicas of partitions to other brokers, as kafka-reassign-partitions does (KIP-455)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cli.client.assignments import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Assignment,
    Place,
    Replica,
    brokers_of,
    name_of,
    names_of,
    parse_assignment,
    parse_topics,
    propose,
    read_plan,
    throttled_replicas,
    to_json,
)
from pybroker.cli.client.command import run
from pybroker.cli.client.directory_moves import (
    MOVE_RATE,
    back,
    find_locations,
    find_states,
    is_over,
    start_moves,
)
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.option_values import natural, positive, seconds

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Session

#: The version of AlterPartitionReassignments that may forbid another number of replicas.
_FACTOR_VERSION = 1

_EXAMPLES = """\
examples:
  pybroker reassign generate --topic orders --broker-list 1,2,3
  pybroker reassign execute plan.json --throttle 10000000
  pybroker reassign verify plan.json
  pybroker reassign list"""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker reassign", "Replicas that move to other brokers.", _EXAMPLES)
    parser.add_action("list", _list, "show partitions that get other replicas now")
    made = parser.add_action("generate", _generate, "print today's assignment, and one that uses the given brokers")
    made.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="can be repeated")
    made.add_argument("--topics-to-move-json-file", type=Path, metavar="FILE", help="the topics, in Kafka's JSON")
    made.add_argument("--broker-list", type=_brokers, required=True, metavar="ID,...", help="the brokers to use")
    made.add_argument(
        "--replication-factor", type=positive, metavar="N", help="replicas of each partition (as many as now)"
    )
    made.add_argument("--disable-rack-aware", action="store_true", help="ignore the racks of brokers")
    done = parser.add_action("execute", _execute, "begin to move replicas as the file says")
    _add_file(done)
    done.add_argument("--throttle", type=positive, metavar="BYTES", help="most bytes per second between brokers")
    done.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=positive,
        metavar="BYTES",
        help="most bytes per second between log directories of a broker",
    )
    done.add_argument(
        "--move-timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long to wait until moves between log directories begin (as --timeout)",
    )
    done.add_argument("--additional", action="store_true", help="also while other partitions move")
    done.add_argument(
        "--disallow-replication-factor-change",
        action="store_true",
        help="refuse partitions that would get another number of replicas (KIP-860)",
    )
    checked = parser.add_action("verify", _verify, "show whether the moves are complete, and then remove throttles")
    _add_file(checked)
    checked.add_argument("--preserve-throttles", action="store_true", help="keep throttles after the moves")
    ended = parser.add_action("cancel", _cancel, "end moves that are not complete, and remove throttles")
    _add_file(ended)
    ended.add_argument("--preserve-throttles", action="store_true", help="keep throttles")
    return parser


def _add_file(parser: ClientParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the assignment, in Kafka's JSON")
    parser.add_argument("--reassignment-json-file", type=Path, metavar="FILE", help="the same")


def _brokers(text: str) -> list[int]:
    found = [natural(each) for each in text.split(",")]
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a broker twice")
    return found


class Move(NamedTuple):
    """A reassignment that is not complete."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def _list(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        rows = [
            {
                "topic": topic,
                "partition": index,
                "replicas": each.replicas,
                "adding": each.adding,
                "removing": each.removing,
            }
            for (topic, index), each in sorted(moves(client).items())
        ]
    if not rows and not options.json:
        print("No partition reassignments found.")
    show(rows, as_json=options.json)


def _generate(session: Session, options: argparse.Namespace) -> None:
    names = list(options.topic)
    if options.topics_to_move_json_file is not None:
        names += parse_topics(read_plan(options.topics_to_move_json_file))
    if not names:
        raise UsageError("which topics?")
    current = _current(session, names)
    for name in names:
        if not any(topic == name for topic, _ in current):
            raise CommandError(f"there is no topic {name}")
    racks = {node.id: node.rack for node in session.cluster.nodes}
    unknown = [each for each in options.broker_list if each not in racks]
    if unknown:
        raise CommandError(f"Unknown broker id {unknown[0]}")
    chosen = {each: None if options.disable_rack_aware else racks[each] for each in options.broker_list}
    proposed = propose(current, chosen, options.replication_factor)
    if options.json:
        print(to_json(proposed))
        return
    with session.administration() as client:
        print(f"Current partition replica assignment\n{to_json(current, _directories(session, client, current))}\n")
    print(f"Proposed partition reassignment configuration\n{to_json(proposed)}")


def _execute(session: Session, options: argparse.Namespace) -> None:
    target, directories = _target(options)
    current = _current(session, {topic for topic, _ in target})
    for place in sorted(target.keys() - current.keys()):
        raise CommandError(f"there is no partition {name_of(place)}")
    known = {node.id for node in session.cluster.nodes}
    unknown = [each for each in brokers_of(target) if each not in known]
    if unknown:
        raise CommandError(f"Unknown broker id {unknown[0]}")
    with session.administration() as client:
        if moves(client) and not options.additional:
            raise CommandError(
                "Cannot execute because there is an existing partition assignment.  Use --additional to override this"
                " and create a new partition assignment in addition to the existing one. The --additional option can"
                " also be used to change the throttle by resubmitting the current reassignment."
            )
        before = {place: current[place] for place in target}
        if not options.json:
            print(f"Current partition replica assignment\n\n{to_json(before, _directories(session, client, before))}\n")
            print("Save this to use as the --reassignment-json-file option during rollback")
        if options.throttle is not None:
            _throttle(session, before, target, options.throttle)
            if not options.json:
                print(f"The inter-broker throttle limit was set to {options.throttle} B/s")
        if options.replica_alter_log_dirs_throttle is not None:
            _throttle_directories(session, directories, options)
        may_change = not options.disallow_replication_factor_change
        refused = _alter(client, target, options.timeout, may_change_factor=may_change)
        for place, reason in sorted(refused.items()):
            raise CommandError(f"Error reassigning partition(s): {name_of(place)}: {reason}")
        started = sorted(target)
        if options.json:
            show([{"topic": each[0], "partition": each[1], "replicas": target[each]} for each in started], as_json=True)
        else:
            print(f"Successfully started partition reassignment{'s' * (len(started) > 1)} for {names_of(started)}")
        _move(client, directories, options.move_timeout or options.timeout, options)


def _verify(session: Session, options: argparse.Namespace) -> None:
    target, directories = _target(options)
    current = _current(session, {topic for topic, _ in target}, if_there=True)
    with session.administration() as client:
        moving = moves(client)
        moved = find_states(client, directories)
    rows: list[dict[str, object]] = []
    lines = ["Status of partition reassignment:"]
    for place, replicas in sorted(target.items()):
        found = current.get(place)
        state, text = _state(name_of(place), replicas, found, moving.get(place))
        rows.append({"topic": place[0], "partition": place[1], "state": state, "replicas": found})
        lines.append(text)
    for replica, (move, text) in moved.items():
        topic, index, broker = replica
        directory = directories[replica]
        rows.append({"topic": topic, "partition": index, "broker": broker, "state": move.value, "directory": directory})
        lines.append(text)
    if options.json:
        show(rows, as_json=True)
    else:
        print("\n".join(lines))
    if not moving and all(is_over(move) for move, _ in moved.values()) and not options.preserve_throttles:
        _clear_throttles(session, {topic for topic, _ in target.keys() & current.keys()}, options)


def _state(name: str, wanted: list[int], found: list[int] | None, move: Move | None) -> tuple[str, str]:
    """Return the state of one partition, and Kafka's line about it."""
    state = "different"
    if move is not None and set(wanted) == set(move.replicas) - set(move.removing):
        return "moving", f"Reassignment of partition {name} is still in progress."
    if found is None:
        found, state = [], "missing"
    if found == wanted and move is None:
        return "complete", f"Reassignment of partition {name} is completed."
    return (
        state,
        f"There is no active reassignment of partition {name}, but replica set is {_joined(found)} rather than"
        f" {_joined(wanted)}.",
    )


def _cancel(session: Session, options: argparse.Namespace) -> None:
    target, directories = _target(options)
    with session.administration() as client:
        active = sorted(moves(client).keys() & target.keys())
        refused = _alter(client, dict.fromkeys(active), options.timeout) if active else {}
        left = moves(client) if active else {}
        for place, reason in sorted(refused.items()):
            raise CommandError(f"Error cancelling partition reassignment for {name_of(place)}: {reason}")
        if options.json:
            show(({"topic": topic, "partition": index, "cancelled": True} for topic, index in active), as_json=True)
        elif active:
            print(f"Successfully cancelled partition reassignment{'s' * (len(active) > 1)} for: {names_of(active)}")
        else:
            print("None of the specified partition reassignments are active.")
        returning = back(client, directories)
        _move(client, returning, options.timeout, options)
        if directories and not returning and not options.json:
            print("None of the specified partition moves are active.")
    if not left and not options.preserve_throttles:
        _clear_throttles(session, {topic for topic, _ in target}, options)


# -- the cluster -------------------------------------------------------------------------------------------------------


def _target(options: argparse.Namespace) -> tuple[Assignment, dict[Replica, str]]:
    path = options.reassignment_json_file or options.file
    if path is None:
        raise UsageError("which file?")
    return parse_assignment(read_plan(path))


def _current(session: Session, names: Iterable[str], *, if_there: bool = False) -> Assignment:
    from pybroker.cli.topics import describe

    found = describe(session, sorted(set(names)), if_there=if_there)
    return {(topic.name, each.id): [node.id for node in each.replicas] for topic in found for each in topic.partitions}


def _directories(session: Session, client: Administration, current: Assignment) -> dict[Replica, str]:
    """Return the log directories of replicas, to go back to, as far as their brokers are there."""
    alive = {node.id for node in session.cluster.nodes}
    replicas = [(*place, each) for place, all_of_it in current.items() for each in all_of_it if each in alive]
    found = find_locations(client, replicas)
    return {replica: location.current for replica, location in found.items() if location.current is not None}


def moves(client: Administration) -> dict[Place, Move]:
    """Return the reassignments that are not complete. Raises CommandError."""
    found = client.ask("list_partition_reassignments")
    return {
        (place.topic, place.partition): Move(each["replicas"], each["adding_replicas"], each["removing_replicas"])
        for place, each in found.items()
    }


def _alter(
    client: Administration,
    target: Mapping[Place, Sequence[int] | None],
    timeout_s: float,
    *,
    may_change_factor: bool = True,
) -> dict[Place, str]:
    """Ask for these replicas, None to cancel. Return the refused partitions with the reason. Raises CommandError."""
    from kafka.errors import for_code
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest

    topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
    partitions: dict[str, list[object]] = {}
    for (topic, index), replicas in target.items():
        wanted = topic_type.ReassignablePartition(partition_index=index, replicas=replicas)
        partitions.setdefault(topic, []).append(wanted)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=round(timeout_s * 1000),
        allow_replication_factor_change=may_change_factor,
        topics=[topic_type(name=name, partitions=each) for name, each in partitions.items()],
        min_version=0 if may_change_factor else _FACTOR_VERSION,
    )
    answer = client.send(request)
    client.check(answer)
    return {
        (topic.name, each.partition_index): each.error_message or for_code(each.error_code).description
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def _move(
    client: Administration, directories: Mapping[Replica, str], timeout_s: float, options: argparse.Namespace
) -> None:
    """Begin moves between log directories. A new replica is there once its reassignment has begun."""
    lines = start_moves(client, directories, timeout_s)
    if lines and not options.json:
        print("\n".join(lines))


# -- throttles ---------------------------------------------------------------------------------------------------------


def _throttle(session: Session, before: Assignment, target: Assignment, bytes_per_s: int) -> None:
    for broker in brokers_of(before, target):
        _set(session, "BROKER", str(broker), {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)})
    for topic, values in throttled_replicas(before, target).items():
        if values:
            _set(session, "TOPIC", topic, values)


def _throttle_directories(session: Session, directories: Mapping[Replica, str], options: argparse.Namespace) -> None:
    bytes_per_s = options.replica_alter_log_dirs_throttle
    for broker in sorted({broker for _, _, broker in directories}):
        _set(session, "BROKER", str(broker), {MOVE_RATE: str(bytes_per_s)})
    if directories and not options.json:
        print(f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s")


def _clear_throttles(session: Session, topics: Iterable[str], options: argparse.Namespace) -> None:
    brokers = sorted(node.id for node in session.cluster.nodes)
    for broker in brokers:
        _set(session, "BROKER", str(broker), {LEADER_RATE: None, FOLLOWER_RATE: None, MOVE_RATE: None})
    for topic in sorted(topics):
        _set(session, "TOPIC", topic, {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None})
    if not options.json:
        print(f"\nClearing broker-level throttles on broker{'s' * (len(brokers) > 1)} {_joined(brokers)}")
        for topic in sorted(topics):
            print(f"Clearing topic-level throttles on topic {topic}")


def _set(session: Session, kind: str, name: str, values: Mapping[str, str | None]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    resource = ConfigResource(ResourceType[kind], name)
    for key, value in values.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    (future,) = session.admin.incremental_alter_configs([resource], request_timeout=session.timeout_s).values()
    session.wait(future, name)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
