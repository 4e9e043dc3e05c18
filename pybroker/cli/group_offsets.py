"""`pybroker groups reset-offsets` and `delete-offsets`: change the committed offsets of groups without members."""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.client.times import duration_ms, time_ms, utc_time_ms
from pybroker.cli.option_values import natural
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Place, Session

_TOPIC = re.compile(r"([^:]+)(?::([0-9]{1,10}(?:,[0-9]{1,10})*))?")


class TopicPartitions(NamedTuple):
    """A topic on the command line; no `partitions` means all of them."""

    topic: str
    partitions: tuple[int, ...] = ()

    def has(self, place: Place) -> bool:
        """Return whether a partition is one of these."""
        return place[0] == self.topic and (not self.partitions or place[1] in self.partitions)


def topic_partitions(text: str) -> TopicPartitions:
    """TOPIC, or TOPIC:PARTITION,..."""
    found = _TOPIC.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC:PARTITION,...")
    return TopicPartitions(found[1], tuple(map(int, found[2].split(","))) if found[2] else ())


def add_reset_options(parser: ClientParser) -> None:
    """Add the options of `reset-offsets`, beside the groups."""
    of_topics = parser.add_mutually_exclusive_group()
    _add_topic(of_topics)
    of_topics.add_argument(
        "--all-topics", action="store_true", help="of all topics with offsets of the group (the default)"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to", metavar="WHERE", help="earliest, latest, an offset, +N or -N, or a time: @MS, -5m, ISO 8601"
    )
    for place in ("earliest", "latest"):
        option = f"--to-{place}"
        where.add_argument(option, action="store_const", dest="to", const=place, help=f"the same as --to {place}")
    where.add_argument("--to-offset", type=_offset, dest="to", metavar="N", help="the same as --to N")
    where.add_argument(
        "--to-current",
        action="store_const",
        dest="to",
        const="current",
        help="to the committed offset, inside the log; to the end of partitions without one",
    )
    where.add_argument("--shift-by", type=_shift, dest="to", metavar="N", help="the same as --to +N, or -N")
    where.add_argument("--to-datetime", type=_since, dest="to", metavar="ISO", help="the same as --to TIME, in UTC")
    where.add_argument("--by-duration", type=_ago, dest="to", metavar="PnDTnHnMnS", help="the same as --to -TIME")
    where.add_argument(
        "--from-file", type=Path, metavar="CSV", help="to the offsets of a file: the lines that --export prints"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--execute", action="store_true", help="reset the offsets (default: only show the result)")
    how.add_argument("--dry-run", action="store_true", help="only show the result (the default)")
    parser.add_argument(
        "--export", action="store_true", help="print lines TOPIC,PARTITION,OFFSET; of several groups with GROUP, first"
    )


def add_topics(parser: ClientParser) -> None:
    """Add the topics of `delete-offsets`."""
    of_topics = parser.add_mutually_exclusive_group(required=True)
    _add_topic(of_topics)
    of_topics.add_argument("--all-topics", action="store_true", help="of all topics with offsets of the group")


def _add_topic(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--topic",
        type=topic_partitions,
        action="append",
        metavar="TOPIC[:PARTITION,...]",
        help="of this topic, or these partitions of it; can be repeated",
    )


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


class ConsumerOffsets:
    """The committed offsets of consumer groups."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_group(self, group: str) -> dict[Place, int]:
        """Return the group's offsets by partition."""
        return committed_offsets(self._session, group)

    def set(self, group: str, targets: Mapping[Place, int]) -> None:
        """Commit these offsets. Raises CommandError."""
        _commit(self._session, group, targets)


class StreamsOffsets(ConsumerOffsets):
    """The committed offsets of streams groups."""

    def __init__(self, session: Session, client: Administration, topics: Sequence[TopicPartitions] | None) -> None:
        super().__init__(session)
        self._client = client
        self._topics = topics or ()

    def of_group(self, group: str) -> dict[Place, int]:
        """Return the group's offsets by partition. Raises CommandError if it has members, or no offset of a topic."""
        from pybroker.cli.client.streams_groups import describe

        if describe(self._client, group).members:
            raise CommandError(f"{group}: the group has members")
        committed = super().of_group(group)
        for place in _places(self._session, self._topics, committed):
            if place not in committed:  # only the topology of the group says what it reads
                raise CommandError(f"{group}: it has no offset of {place[0]}-{place[1]}")
        return committed


class ShareOffsets:
    """The start offsets of share groups."""

    def __init__(self, client: Administration) -> None:
        self._client = client

    def of_group(self, group: str) -> dict[Place, int]:
        """Return the group's start offsets by partition. Raises UsageError if the group has members."""
        from pybroker.cli.client.share_groups import check_is_empty, start_offsets

        check_is_empty(self._client, group)
        return start_offsets(self._client, group)

    def set(self, group: str, targets: Mapping[Place, int]) -> None:
        """Set these start offsets. Raises CommandError."""
        from pybroker.cli.client.share_groups import set_start_offsets

        set_start_offsets(self._client, group, targets)


def reset(session: Session, options: argparse.Namespace, groups: Sequence[str]) -> None:
    """Reset the offsets of groups, or show the result. Raises CommandError, UsageError."""
    if options.group_type is None:
        _reset(session, options, groups, ConsumerOffsets(session))
        return
    with session.administration() as client:
        offsets = (
            ShareOffsets(client) if options.group_type == "share" else StreamsOffsets(session, client, options.topic)
        )
        _reset(session, options, groups, offsets)


def _reset(
    session: Session, options: argparse.Namespace, groups: Sequence[str], offsets: ConsumerOffsets | ShareOffsets
) -> None:
    plans = None if options.from_file is None else read_plans(options.from_file, groups)
    for group in groups:
        before = offsets.of_group(group)
        if plans is not None:
            targets = _inside(session, plans.get(group, {}))
        else:
            places = _places(session, options.topic, before)
            if not places:
                raise CommandError(f"{group}: it has no offsets; name topics (--topic)")
            targets = _targets(session, places, before, options.to)
        if options.execute and targets:
            offsets.set(group, targets)
        if options.export:
            _export(group, targets, with_group=len(groups) > 1)
            continue
        rows = [
            {
                "group": group,
                "topic": place[0],
                "partition": place[1],
                "offset": before.get(place),
                "new_offset": offset,
                "executed": options.execute,
            }
            for place, offset in sorted(targets.items())
        ]
        show(rows, as_json=options.json)


def _places(session: Session, topics: Sequence[TopicPartitions] | None, committed: Mapping[Place, int]) -> list[Place]:
    """Return the named partitions, or those with an offset of the group. Raises CommandError for a missing one."""
    from confluent_kafka import KafkaError

    from pybroker.cli.topics import describe

    if not topics:
        return list(committed)
    there = [(topic.name, each.id) for topic in describe(session, _topics(topics)) for each in topic.partitions]
    for wanted in topics:
        for partition in wanted.partitions:
            if (wanted.topic, partition) not in there:
                code = KafkaError.UNKNOWN_TOPIC_OR_PART
                raise CommandError(f"{wanted.topic}: there is no partition {partition}", code)
    return [place for place in there if any(wanted.has(place) for wanted in topics)]


def _topics(topics: Sequence[TopicPartitions]) -> list[str]:
    return list(dict.fromkeys(each.topic for each in topics))


def _targets(session: Session, places: list[Place], committed: Mapping[Place, int], where: str) -> dict[Place, int]:
    """Return the new offset of each partition: always one in the log, or its end."""
    if where == "earliest":
        return session.starts(places)
    if where == "latest":
        return session.ends(places)
    if where == "current":
        without = session.ends([place for place in places if place not in committed])
        return _inside(session, {place: committed[place] for place in places if place in committed}) | without
    if where.lstrip("+-").isdecimal() and where[0] in "+-":
        for topic, partition in places:
            if (topic, partition) not in committed:
                raise UsageError(f"{topic}-{partition}: the group has no offset to move by {where}")
        return _inside(session, {place: committed[place] + int(where) for place in places})
    if where.isdecimal():
        return _inside(session, dict.fromkeys(places, int(where)))
    try:
        since = time_ms(where, int(time.time() * 1000))
    except argparse.ArgumentTypeError:
        raise UsageError(f"--to: {where!r} is neither earliest, latest, an offset, +N, -N nor a time") from None
    return session.since(places, since)


def _inside(session: Session, wanted: Mapping[Place, int]) -> dict[Place, int]:
    """Return the offsets, or the nearest ones in the log."""
    starts, ends = session.starts(wanted), session.ends(wanted)
    return {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}


def read_plans(path: Path, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
    """Return the offsets in a file by group. Lines without a group are for the only one. Raises CommandError."""
    try:
        rows = list(csv.reader(utf8_text(file_bytes(path)).splitlines()))
    except (OSError, UnreadableText, csv.Error) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    plans: dict[str, dict[Place, int]] = {}
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 3 and len(groups) == 1:
            cells = [groups[0], *cells]
        if len(cells) != 4 or not all(re.fullmatch("[0-9]{1,18}", cell) for cell in cells[2:]):
            allowed = "TOPIC,PARTITION,OFFSET" if len(groups) == 1 else "GROUP,TOPIC,PARTITION,OFFSET"
            raise CommandError(f"{path}:{number}: is not {allowed}")
        group, topic, partition, offset = cells
        plans.setdefault(group, {})[topic, int(partition)] = int(offset)
    return plans


def _export(group: str, targets: Mapping[Place, int], *, with_group: bool) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for (topic, partition), offset in sorted(targets.items()):
        writer.writerow([*([group] if with_group else []), topic, partition, offset])


def _commit(session: Session, group: str, targets: Mapping[Place, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in targets.items()]
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    futures = session.admin.alter_consumer_group_offsets(request, request_timeout=session.timeout_s)
    for answer in session.wait_for_all(futures).values():
        for each in answer.topic_partitions:
            if each.error is not None:
                raise CommandError(f"{group}: {each.topic}-{each.partition}: {each.error.str()}")


def delete_offsets(session: Session, options: argparse.Namespace, groups: Sequence[str]) -> None:
    """Delete the offsets of groups for topics or partitions. Raises CommandError if a group has none of them."""
    with session.administration() as client:
        from kafka import TopicPartition

        for group in groups:
            committed = committed_offsets(session, group)
            topics = options.topic or [TopicPartitions(topic) for topic, _ in committed]
            for wanted in topics:
                if not any(wanted.has(place) for place in committed):
                    raise CommandError(f"{group}: it has no offsets of {wanted.topic}")
            chosen = sorted(place for place in committed if any(wanted.has(place) for wanted in topics))
            if not chosen:
                continue
            answers = client.ask(
                "delete_group_offsets", group, [TopicPartition(*place) for place in chosen], about=group
            )
            for place, answer in answers.items():
                if answer.errno:
                    raise CommandError(f"{group}: {place.topic}-{place.partition}: {answer.description.rstrip('.')}")
            rows = [{"group": group, "topic": place[0], "partition": place[1], "deleted": True} for place in chosen]
            show(rows, as_json=options.json)


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
