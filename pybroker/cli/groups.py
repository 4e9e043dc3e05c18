"""`pybroker groups`: list, describe, reset and delete groups of all types; show the lag of Spark queries too."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.queries import Query, read_queries
from pybroker.cli.group_offsets import add_reset_options, add_topics, committed_offsets, delete_offsets, reset
from pybroker.cli.typed_groups import (
    SHARE,
    STREAMS,
    add_type_options,
    check_type,
    delete_share_offsets,
    delete_topics,
    describe_groups,
    internal_topics,
    list_groups,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker groups list
  pybroker groups describe shop                                     (members, offsets and lag)
  pybroker groups list --queries http://localhost:9404              (and the Spark queries that the broker follows)
  pybroker groups reset-offsets shop --topic orders --to -1h        (shows what it would do)
  pybroker groups reset-offsets shop --topic orders --to earliest --execute
  pybroker groups reset-offsets till --share --topic orders --to-offset 5 --execute
  pybroker groups describe till --share --members
  pybroker groups describe counter --topology                       (processors and stores of Kafka Streams)
  pybroker groups delete counter --streams --delete-all-internal-topics"""

#: The states and protocols of groups; "unknown" are those that librdkafka does not know.
_STATES = (
    *("stable", "empty", "preparing_rebalancing", "completing_rebalancing", "dead", "unknown"),
    *("assigning", "reconciling", "not_ready"),
)
_PROTOCOLS = ("classic", "consumer", SHARE, STREAMS, "spark", "unknown")


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker groups", "Consumer groups of a cluster.", _EXAMPLES)
    listed = parser.add_action("list", _list, "list names, states and protocols of groups")
    listed.add_argument(
        "--state", nargs="?", const=[], type=_states, help="only groups in these states, separated by commas"
    )
    listed.add_argument("--type", nargs="?", const=[], type=_types, help="only groups with these protocols")
    for name in (SHARE, STREAMS):  # as the other actions
        listed.add_argument(
            f"--{name}", dest="type", action="store_const", const=[name], help=f"the same as --type {name}"
        )
    _add_queries(listed)
    described = parser.add_action("describe", _describe, "show offsets and lag of groups, by partition")
    _add_names(described)
    _add_all_groups(described)
    _add_queries(described)
    shown = described.add_mutually_exclusive_group()
    shown.add_argument("--offsets", action="store_true", help="the default")
    shown.add_argument("--members", action="store_true", help="show the members instead")
    shown.add_argument("--state", action="store_true", help="show assignor and coordinator instead")
    shown.add_argument(
        "--topology", action="store_true", help="show the topology of streams groups, as the broker has it"
    )
    add_type_options(described)
    described.add_argument(
        "--verbose", action="store_true", help="accepted for kafka-consumer-groups: partitions are always shown"
    )
    moved = parser.add_action("reset-offsets", _reset, "reset the offsets of a group without members")
    _add_names(moved)
    _add_all_groups(moved)
    add_reset_options(moved)
    add_type_options(moved)
    _add_internal_topics(moved)
    moved.add_argument(
        "--delete-internal-topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="with --streams and --execute: delete this topic of Kafka Streams; can be repeated",
    )
    deleted = parser.add_action("delete", _delete, "delete groups and their offsets")
    _add_names(deleted)
    _add_all_groups(deleted)
    add_type_options(deleted)
    _add_internal_topics(deleted)
    forgotten = parser.add_action("delete-offsets", _delete_offsets, "delete a group's offsets of some topics")
    _add_names(forgotten)
    add_topics(forgotten)
    add_type_options(forgotten)
    return parser


def _states(text: str) -> list[str]:
    return _chosen(text, "state", _STATES)


def _types(text: str) -> list[str]:
    return _chosen(text, "protocol", _PROTOCOLS)


def _chosen(text: str, noun: str, known: Sequence[str]) -> list[str]:
    words = [_plain(word) for word in text.split(",")]
    if set(words) - {_plain(name) for name in known}:
        raise argparse.ArgumentTypeError(f"{text!r} names no {noun}s: they are {', '.join(known)}")
    return words


def _plain(name: str) -> str:
    """Return a state's common form: Kafka writes PreparingRebalance, librdkafka preparing_rebalancing."""
    return name.strip().lower().replace("_", "").replace("rebalancing", "rebalance")


def _add_names(parser: ClientParser) -> None:
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="the same; can be repeated")


def _add_all_groups(parser: ClientParser) -> None:
    parser.add_argument("--all-groups", action="store_true", help="all groups")


def _add_internal_topics(parser: ClientParser) -> None:
    parser.add_argument(
        "--delete-all-internal-topics",
        action="store_true",
        help="with --streams: delete the topics that Kafka Streams made for the groups, too",
    )


def _add_queries(parser: ClientParser) -> None:
    parser.add_argument(
        "--queries", metavar="URL", help="the broker's metrics.listeners: also show the Spark queries that it follows"
    )


def _names(options: argparse.Namespace) -> list[str]:
    names = list(dict.fromkeys([*options.names, *options.group]))
    if not names or "" in names:
        raise UsageError("which group?")
    return names


def _names_or_all(session: Session, options: argparse.Namespace) -> list[str]:
    """Return the groups that the options name; with --all-groups all of the cluster."""
    if not options.all_groups:
        return _names(options)
    if options.names or options.group:
        raise UsageError("--all-groups: not with the names of groups")
    return _all_groups(session, options.group_type)


def _all_groups(session: Session, group_type: str | None = None) -> list[str]:
    if group_type is not None:
        return [row["group"] for row in list_groups(session, [group_type])]
    found = session.wait(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
    return sorted(each.group_id for each in found.valid)


def _list(session: Session, options: argparse.Namespace) -> None:
    found = session.wait(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
    rows = [
        {"group": each.group_id, "state": each.state.name.lower(), "protocol": each.type.name.lower()}
        for each in sorted(found.valid, key=lambda each: each.group_id)
    ]
    rows += _typed_groups(session, options)
    rows += [{"group": each.name, "state": each.state, "protocol": "spark"} for each in _queries(session, options)]
    for column, wanted in (("state", options.state), ("protocol", options.type)):
        if wanted:
            rows = [row for row in rows if _plain(row[column]) in wanted]
    show(rows, as_json=options.json)


def _typed_groups(session: Session, options: argparse.Namespace) -> list[dict[str, str]]:
    """Return the rows of share and streams groups. A list that does not name these types does without them if
    kafka-python cannot ask: it knows fewer ways to log in, and older brokers do not know types.
    """
    types = [name for name in (SHARE, STREAMS) if not options.type or name in options.type]
    if not types:
        return []
    try:
        return list_groups(session, types)
    except (CommandError, UsageError):
        if options.type:
            raise
        return []


def _queries(session: Session, options: argparse.Namespace) -> list[Query]:
    return read_queries(options.queries, session.timeout_s) if options.queries is not None else []


def _describe(session: Session, options: argparse.Namespace) -> None:
    if options.all_groups:
        options.group += _all_groups(session, options.group_type)
        options.group += [each.name for each in _queries(session, options)]
        if not options.group:
            return
    names = _names(options)
    if options.topology:
        _show_topologies(session, options, names)
        return
    if options.group_type is not None:
        describe_groups(session, options, names)
        return
    queries = [each for each in _queries(session, options) if each.name in names]
    groups = [name for name in names if name not in {each.name for each in queries}]
    _describe_groups(session, options, groups)
    for number, query in enumerate(queries):
        rows = _query_lags(session, query)
        if options.json:
            head = {"group": query.name, "state": query.state, "protocol": "spark", "checkpoint": query.checkpoint}
            show([{**head, "partitions": rows}], as_json=True)
            continue
        if number or groups:
            print()
        print_line(f"{query.name}: a query of Spark, {query.state}")
        show(rows, as_json=False)


def _show_topologies(session: Session, options: argparse.Namespace, names: Sequence[str]) -> None:
    from pybroker.cli.client.streams_groups import topology_lines, topology_rows

    with session.administration() as client:
        for name in names:
            if options.json:
                show(topology_rows(client, name), as_json=True)
            else:
                for line in topology_lines(client, name):
                    print_line(line)


def _query_lags(session: Session, query: Query) -> list[dict[str, object]]:
    there = session.known(query.offsets)
    ends = session.ends(there)
    return [
        {
            "topic": place[0],
            "partition": place[1],
            "offset": offset,
            "end_offset": ends.get(place),
            "lag": max(0, ends[place] - offset) if offset is not None and place in ends else None,
        }
        for place, offset in sorted(query.offsets.items())
    ]


def _describe_groups(session: Session, options: argparse.Namespace, names: Sequence[str]) -> None:
    found = _descriptions(session, names) if names else []
    if options.state:
        show([{**_head(group), "members": len(group.members)} for group in found], as_json=options.json)
        return
    for number, group in enumerate(found):
        rows = _members(group) if options.members else _lags(session, group)
        head = _head(group)
        if options.json:
            show([{**head, "members" if options.members else "partitions": rows}], as_json=True)
            continue
        if number:
            print()
        count = len(group.members)
        print_line(f"{group.group_id}: {head['state']}, {count} member{'' if count == 1 else 's'}")
        show(rows, as_json=False)


def _head(group: ConsumerGroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state.name.lower(),
        "protocol": group.type.name.lower(),
        "assignor": group.partition_assignor,
        "coordinator": group.coordinator.id if group.coordinator is not None else None,
    }


def _members(group: ConsumerGroupDescription) -> list[dict[str, object]]:
    return [
        {
            "member": each.member_id,
            "instance": each.group_instance_id,
            "client": each.client_id,
            "host": each.host,
            "partitions": sorted(
                f"{place.topic}-{place.partition}"
                for place in (each.assignment.topic_partitions if each.assignment is not None else ())
            ),
        }
        for each in group.members
    ]


def _lags(session: Session, group: ConsumerGroupDescription) -> list[dict[str, object]]:
    committed = committed_offsets(session, group.group_id)
    owners = {
        (place.topic, place.partition): member
        for member in group.members
        if member.assignment is not None
        for place in member.assignment.topic_partitions
    }
    places = sorted({*committed, *owners})
    ends = session.ends(
        session.partitions().intersection(places)
    )  # members may not have noticed yet that a topic was deleted
    return [
        {
            "topic": place[0],
            "partition": place[1],
            "offset": committed.get(place),
            "end_offset": ends.get(place),
            "lag": ends[place] - committed[place] if place in committed and place in ends else None,
            "client": owners[place].client_id if place in owners else None,
        }
        for place in places
    ]


def _reset(session: Session, options: argparse.Namespace) -> None:
    names = _names_or_all(session, options)
    topics = internal_topics(session, options, names)
    reset(session, options, names)
    if options.execute:
        delete_topics(session, topics, as_json=options.json)


def _delete(session: Session, options: argparse.Namespace) -> None:
    names = _names_or_all(session, options)
    if not names:
        return
    if options.group_type is not None:
        check_type(session, options.group_type, names)
    topics = internal_topics(session, options, names)
    futures = session.admin.delete_consumer_groups(names, request_timeout=session.timeout_s)
    for name in session.wait_for_all(futures):
        if options.json:
            show([{"group": name, "deleted": True}], as_json=True)
        else:
            print_line(f"deleted {name}")
    delete_topics(session, topics, as_json=options.json)


def _delete_offsets(session: Session, options: argparse.Namespace) -> None:
    if options.group_type == SHARE:
        delete_share_offsets(session, options, _names(options))
    else:
        delete_offsets(session, options, _names(options))


def _descriptions(session: Session, names: Sequence[str]) -> list[ConsumerGroupDescription]:
    futures = session.admin.describe_consumer_groups(list(names), request_timeout=session.timeout_s)
    found = list(session.wait_for_all(futures).values())
    for group in found:  # Kafka describes a group of any name
        if group.state.name == "DEAD":
            raise CommandError(f"{group.group_id}: there is no such group")
    return found
