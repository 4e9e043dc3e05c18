"""`pybroker groups`: list, describe, reset and delete consumer groups; show the lag of Spark queries too."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.queries import Query, read_queries
from pybroker.cli.client.times import duration_ms, time_ms, utc_time_ms
from pybroker.cli.option_values import natural

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import ConsumerGroupDescription

    from pybroker.cli.client.session import Place, Session

_EXAMPLES = """\
examples:
  pybroker groups list
  pybroker groups describe shop                                     (members, offsets and lag)
  pybroker groups list --queries http://localhost:9404              (and the Spark queries that the broker follows)
  pybroker groups reset-offsets shop --topic orders --to -1h        (shows what it would do)
  pybroker groups reset-offsets shop --topic orders --to earliest --execute"""

#: The protocols and states that librdkafka knows; all others are "unknown" to it.
_STATES = ("stable", "empty", "preparing_rebalancing", "completing_rebalancing", "dead", "unknown")
_PROTOCOLS = ("classic", "consumer", "spark", "unknown")


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
    _add_queries(listed)
    described = parser.add_action("describe", _describe, "show offsets and lag of groups, by partition")
    _add_names(described)
    described.add_argument("--all-groups", action="store_true", help="all groups")
    _add_queries(described)
    shown = described.add_mutually_exclusive_group()
    shown.add_argument("--offsets", action="store_true", help="the default")
    shown.add_argument("--members", action="store_true", help="show the members instead")
    shown.add_argument("--state", action="store_true", help="show assignor and coordinator instead")
    described.add_argument(
        "--verbose", action="store_true", help="accepted for kafka-consumer-groups: partitions are always shown"
    )
    moved = parser.add_action("reset-offsets", _reset, "reset the offsets of a group without members")
    _add_names(moved)
    of_topics = moved.add_mutually_exclusive_group()
    of_topics.add_argument("--topic", action="append", help="of this topic; can be repeated")
    of_topics.add_argument(
        "--all-topics", action="store_true", help="of all topics with offsets of the group (the default)"
    )
    where = moved.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to", metavar="WHERE", help="earliest, latest, an offset, +N or -N, or a time: @MS, -5m, ISO 8601"
    )
    for place in ("earliest", "latest"):
        option = f"--to-{place}"
        where.add_argument(option, action="store_const", dest="to", const=place, help=f"the same as --to {place}")
    where.add_argument("--to-offset", type=_offset, dest="to", metavar="N", help="the same as --to N")
    where.add_argument("--to-current", action="store_const", dest="to", const="+0", help="the same as --to +0")
    where.add_argument("--shift-by", type=_shift, dest="to", metavar="N", help="the same as --to +N, or -N")
    where.add_argument("--to-datetime", type=_since, dest="to", metavar="ISO", help="the same as --to TIME, in UTC")
    where.add_argument("--by-duration", type=_ago, dest="to", metavar="PnDTnHnMnS", help="the same as --to -TIME")
    how = moved.add_mutually_exclusive_group()
    how.add_argument("--execute", action="store_true", help="reset the offsets (default: only show the result)")
    how.add_argument("--dry-run", action="store_true", help="only show the result (the default)")
    deleted = parser.add_action("delete", _delete, "delete groups and their offsets")
    _add_names(deleted)
    forgotten = parser.add_action("delete-offsets", _delete_offsets, "delete a group's offsets of some topics")
    _add_names(forgotten)
    forgotten.add_argument("--topic", action="append", required=True, help="of this topic; can be repeated")
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


def _offset(text: str) -> str:
    return str(natural(text))


def _shift(text: str) -> str:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer")
    return f"{int(text):+d}"


def _since(text: str) -> str:
    return f"@{utc_time_ms(text)}"


def _ago(text: str) -> str:
    return f"-{duration_ms(text)}ms"


def _add_names(parser: ClientParser) -> None:
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="the same; can be repeated")


def _add_queries(parser: ClientParser) -> None:
    parser.add_argument(
        "--queries", metavar="URL", help="the broker's metrics.listeners: also show the Spark queries that it follows"
    )


def _names(options: argparse.Namespace) -> list[str]:
    names = list(dict.fromkeys([*options.names, *options.group]))
    if not names or "" in names:
        raise UsageError("which group?")
    return names


def _list(session: Session, options: argparse.Namespace) -> None:
    found = session.wait(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
    rows = [
        {"group": each.group_id, "state": each.state.name.lower(), "protocol": each.type.name.lower()}
        for each in sorted(found.valid, key=lambda each: each.group_id)
    ]
    rows += [{"group": each.name, "state": each.state, "protocol": "spark"} for each in _queries(session, options)]
    for column, wanted in (("state", options.state), ("protocol", options.type)):
        if wanted:
            rows = [row for row in rows if _plain(row[column]) in wanted]
    show(rows, as_json=options.json)


def _queries(session: Session, options: argparse.Namespace) -> list[Query]:
    return read_queries(options.queries, session.timeout_s) if options.queries is not None else []


def _describe(session: Session, options: argparse.Namespace) -> None:
    if options.all_groups:
        found = session.wait(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
        options.group += sorted(each.group_id for each in found.valid)
        options.group += [each.name for each in _queries(session, options)]
        if not options.group:
            return
    names = _names(options)
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
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    from pybroker.cli.topics import describe

    names = _names(options)
    for group in names:
        committed = committed_offsets(session, group)
        places = list(committed)
        if options.topic:
            topics = describe(session, options.topic)
            places = [(topic.name, each.id) for topic in topics for each in topic.partitions]
        if not places:
            raise CommandError(f"{group}: it has no offsets; name topics (--topic)")
        targets = _targets(session, places, committed, options.to)
        if options.execute:
            wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in targets.items()]
            request = [ConsumerGroupTopicPartitions(group, wanted)]
            futures = session.admin.alter_consumer_group_offsets(request, request_timeout=session.timeout_s)
            for answer in session.wait_for_all(futures).values():
                for each in answer.topic_partitions:
                    if each.error is not None:
                        raise CommandError(f"{group}: {each.topic}-{each.partition}: {each.error.str()}")
        rows = [
            {
                "group": group,
                "topic": place[0],
                "partition": place[1],
                "offset": committed.get(place),
                "new_offset": offset,
                "executed": options.execute,
            }
            for place, offset in sorted(targets.items())
        ]
        show(rows, as_json=options.json)


def _targets(session: Session, places: list[Place], committed: dict[Place, int], where: str) -> dict[Place, int]:
    """Return the new offset of each partition: always one in the log, or its end."""
    starts = session.starts(places)
    ends = session.ends(places)
    if where == "earliest":
        return starts
    if where == "latest":
        return ends
    if where.lstrip("+-").isdecimal() and where[0] in "+-":
        wanted = {place: committed.get(place, starts[place]) + int(where) for place in places}
    elif where.isdecimal():
        wanted = dict.fromkeys(places, int(where))
    else:
        try:
            since = time_ms(where, int(time.time() * 1000))
        except argparse.ArgumentTypeError:
            raise UsageError(f"--to: {where!r} is neither earliest, latest, an offset, +N, -N nor a time") from None
        return session.since(places, since)
    return {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}


def _delete(session: Session, options: argparse.Namespace) -> None:
    futures = session.admin.delete_consumer_groups(_names(options), request_timeout=session.timeout_s)
    for name in session.wait_for_all(futures):
        if options.json:
            show([{"group": name, "deleted": True}], as_json=True)
        else:
            print_line(f"deleted {name}")


def _delete_offsets(session: Session, options: argparse.Namespace) -> None:
    names = _names(options)
    with session.administration() as client:
        from kafka import TopicPartition

        for group in names:
            committed = committed_offsets(session, group)
            for topic in options.topic:
                if topic not in {place[0] for place in committed}:
                    raise CommandError(f"{group}: it has no offsets of {topic}")
            chosen = sorted(place for place in committed if place[0] in options.topic)
            answers = client.ask(
                "delete_group_offsets", group, [TopicPartition(*place) for place in chosen], about=group
            )
            for place, answer in answers.items():
                if answer.errno:
                    raise CommandError(f"{group}: {place.topic}-{place.partition}: {answer.description.rstrip('.')}")
            rows = [{"group": group, "topic": place[0], "partition": place[1], "deleted": True} for place in chosen]
            show(rows, as_json=options.json)


def _descriptions(session: Session, names: Sequence[str]) -> list[ConsumerGroupDescription]:
    futures = session.admin.describe_consumer_groups(list(names), request_timeout=session.timeout_s)
    found = list(session.wait_for_all(futures).values())
    for group in found:  # Kafka describes a group of any name
        if group.state.name == "DEAD":
            raise CommandError(f"{group.group_id}: there is no such group")
    return found


def committed_offsets(session: Session, group: str) -> dict[Place, int]:
    """Return the group's offsets by partition."""
    return {place: each.offset for place, each in commits(session, group).items()}


def commits(session: Session, group: str) -> dict[Place, TopicPartition]:
    """Return the group's commits by partition: offset, leader epoch and metadata."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group)]
    futures = session.admin.list_consumer_group_offsets(request, request_timeout=session.timeout_s)
    (answer,) = session.wait_for_all(futures).values()
    return {(each.topic, each.partition): each for each in answer.topic_partitions if each.offset >= 0}
