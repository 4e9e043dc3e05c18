"""`pybroker groups --share` and `--streams`: groups of the types that librdkafka does not know."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.output import print_line, show
from pybroker.cli.group_offsets import committed_offsets

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Session

SHARE, STREAMS = "share", "streams"


def add_type_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that name a type of groups."""
    types = parser.add_mutually_exclusive_group()
    for name in (SHARE, STREAMS):
        types.add_argument(
            f"--{name}", dest="group_type", action="store_const", const=name, help=f"the groups are {name} groups"
        )


def list_groups(session: Session, types: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return a row for each group of these types, or of all. Raises CommandError, UsageError."""
    with session.administration() as client:
        from kafka.protocol.admin import ListGroupsRequest

        request = ListGroupsRequest(states_filter=[], types_filter=list(types), min_version=5)
        rows = []
        for node in session.cluster.nodes:
            answer = client.send(request, node.id)
            client.check(answer)
            rows += [
                {"group": each.group_id, "state": _snake(each.group_state), "protocol": each.group_type.lower()}
                for each in answer.groups
            ]
    return sorted(rows, key=lambda row: row["group"])


def _snake(state: str) -> str:
    """Return a state as librdkafka writes it: not_ready."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).lower()


def describe_groups(session: Session, options: argparse.Namespace, names: Sequence[str]) -> None:
    """Show offsets, members or state of share or streams groups. Raises CommandError."""
    with session.administration() as client:
        rows = []
        for number, name in enumerate(names):
            described = _described(client, options.group_type, name)
            head = {
                "group": name,
                "state": _snake(described.group_state),
                "protocol": options.group_type,
                "assignor": getattr(described, "assignor_name", None),  # before 4.4 streams groups had no field for it
                "coordinator": client.group_coordinator(name),
            }
            if options.state:
                epochs = {"group_epoch": described.group_epoch, "assignment_epoch": described.assignment_epoch}
                rows.append({**head, "members": len(described.members), **epochs})
                continue
            if options.members:
                what, parts = "members", _member_rows(options.group_type, described)
            else:
                what, parts = "partitions", _offset_rows(session, client, options.group_type, name)
            if options.json:
                show([{**head, what: parts}], as_json=True)
                continue
            if number:
                print()
            count = len(described.members)
            print_line(f"{name}: {head['state']}, {count} member{'' if count == 1 else 's'}")
            show(parts, as_json=False)
    show(rows, as_json=options.json)


def _described(client: Administration, group_type: str, name: str) -> Any:
    from pybroker.cli.client import share_groups, streams_groups

    return share_groups.describe(client, name) if group_type == SHARE else streams_groups.describe(client, name)


def _member_rows(group_type: str, described: Any) -> list[dict[str, object]]:
    from pybroker.cli.client import share_groups, streams_groups

    return share_groups.member_rows(described) if group_type == SHARE else streams_groups.member_rows(described)


def _offset_rows(session: Session, client: Administration, group_type: str, name: str) -> list[dict[str, object]]:
    if group_type == SHARE:
        from pybroker.cli.client.share_groups import offset_rows

        return offset_rows(client, name)
    committed = committed_offsets(session, name)
    ends = session.ends(session.partitions().intersection(committed))
    return [
        {
            "topic": place[0],
            "partition": place[1],
            "offset": offset,
            "end_offset": ends.get(place),
            "lag": ends[place] - offset if place in ends else None,
        }
        for place, offset in sorted(committed.items())
    ]


def check_type(session: Session, group_type: str, names: Sequence[str]) -> None:
    """Raise CommandError if one of the groups is not of this type: a group of another type would be deleted."""
    there = {row["group"] for row in list_groups(session, [group_type])}
    wrong = [name for name in names if name not in there]
    if wrong:
        raise CommandError("; ".join(f"{name}: there is no {group_type} group of this name" for name in wrong))


def internal_topics(session: Session, options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Return the topics that an action on streams groups is to delete, by its options. Raises CommandError, UsageError.

    With --delete-internal-topic only topics that belong to one of the groups.
    """
    wanted = getattr(options, "delete_internal_topic", [])
    if not options.delete_all_internal_topics and not wanted:
        return []
    if options.group_type != STREAMS:
        raise UsageError("only --streams groups have internal topics")
    from pybroker.cli.client.streams_groups import describe
    from pybroker.cli.client.streams_groups import internal_topics as of_group

    with session.administration() as client:
        found = {topic for name in names for topic in of_group(describe(client, name))}
    if foreign := set(wanted) - found:
        raise CommandError(f"{', '.join(sorted(foreign))}: not an internal topic of {', '.join(names)}")
    there = session.admin.list_topics(timeout=session.timeout_s).topics
    return sorted(found.intersection(there) if options.delete_all_internal_topics else found.intersection(wanted))


def delete_topics(session: Session, topics: Sequence[str], *, as_json: bool) -> None:
    """Delete internal topics, and report each. Raises CommandError."""
    if not topics:
        return
    for topic in session.wait_for_all(session.admin.delete_topics(list(topics), request_timeout=session.timeout_s)):
        if as_json:
            show([{"topic": topic, "deleted": True}], as_json=True)
        else:
            print_line(f"deleted topic {topic}")


def delete_share_offsets(session: Session, options: argparse.Namespace, groups: Sequence[str]) -> None:
    """Delete the start offsets of share groups in whole topics. Raises CommandError, UsageError."""
    from pybroker.cli.client.share_groups import delete_start_offsets

    if not options.topic:
        raise UsageError("--share needs --topic")
    if parts := [each.topic for each in options.topic if each.partitions]:
        raise CommandError(f"{parts[0]}: start offsets are deleted for whole topics")
    with session.administration() as client:
        for group in groups:
            deleted = delete_start_offsets(client, group, dict.fromkeys(each.topic for each in options.topic))
            show([{"group": group, "topic": each, "deleted": True} for each in deleted], as_json=options.json)
