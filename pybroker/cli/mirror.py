"""`pybroker mirror`: topics and groups of one cluster into another, offsets included, until clients move over."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import harmless, show, tell
from pybroker.cli.client.progress import ProgressBar
from pybroker.cli.option_values import key_value, seconds

if TYPE_CHECKING:
    from pybroker.cli.client.session import Place, Session
    from pybroker.mirror.copying import Copier
    from pybroker.mirror.gaps import Markers
    from pybroker.mirror.groups import GroupOffsets
    from pybroker.mirror.topics import MirroredTopic

_EXAMPLES = """\
examples:
  pybroker mirror --source kafka:9092 --bootstrap-server localhost:9092
  pybroker mirror --source kafka:9092 --topic orders --topic audit --groups 'shop.*'
  pybroker mirror --source kafka:9092 --until-end      (the switch-over: nobody writes to the source any more)"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """The command line, whose help is also a page of the site."""
    parser = ClientParser(
        "pybroker mirror", "Copy topics of a cluster, offsets included, and follow until the switch-over.", _EXAMPLES
    )
    parser.add_argument("--source", required=True, metavar="HOST:PORT,...", help="the cluster that is copied")
    parser.add_argument("--source-config", type=Path, metavar="FILE", help="properties of its client")
    parser.add_argument(
        "--source-property", type=key_value, action="append", default=[], metavar="KEY=VALUE", help="one of them"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="this one; may be given again")
    chosen.add_argument("--topics", type=_regex, metavar="REGEX", help="those with such names; unless given: all")
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument("--groups", type=_regex, metavar="REGEX", help="offsets of such groups; unless given: all")
    groups.add_argument("--no-groups", action="store_true", help="offsets of no group")
    parser.add_argument(
        "--gaps",
        choices=("markers", "records"),
        default="markers",
        help="what stands where the source has no record: an empty transaction's marker, which no consumer sees (the "
        "default), or a record without a value: quicker where a compacted topic has many",
    )
    parser.add_argument("--until-end", action="store_true", help="end where the source ends, instead of following")
    parser.add_argument(
        "--interval", type=seconds, default=10.0, metavar="SECONDS", help="between two looks at groups and topics (10)"
    )
    parser.add_client_options()
    parser.set_defaults(run=_mirror)
    return parser


def _mirror(session: Session, options: argparse.Namespace) -> None:
    from pybroker.cli.client.connection import connection
    from pybroker.cli.client.session import Session as Made
    from pybroker.mirror.groups import GroupOffsets

    if "" in options.topic:
        raise UsageError("which topic?")
    source = Made(
        connection(options.source, options.timeout, file=options.source_config, properties=options.source_property)
    )
    if source.cluster.cluster_id == session.cluster.cluster_id:
        raise UsageError("--source and --bootstrap-server are the same cluster")
    groups = None if options.no_groups else GroupOffsets(source, session, options.groups)
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            prefix = f"pybroker-mirror-{source.cluster.cluster_id}-"
            _Run(source, session, options, groups, _marker_maker(stack, session, prefix)).run()
    finally:
        signal.signal(signal.SIGTERM, former)


def _marker_maker(stack: ExitStack, session: Session, prefix: str) -> Callable[[], Markers]:
    """A function that gives the writer of markers; a new copy may need none, and so no second client library."""
    made: list[Markers] = []

    def markers() -> Markers:
        if not made:
            client = stack.enter_context(session.administration())
            from pybroker.mirror.gaps import Markers as Made

            made.append(Made(client, prefix, session.timeout_s))
        return made[0]

    return markers


_TURN_S = 0.2


class _Run:
    """One run: all topics, again and again with a look at what is new."""

    def __init__(
        self,
        source: Session,
        target: Session,
        options: argparse.Namespace,
        groups: GroupOffsets | None,
        markers: Callable[[], Markers],
    ) -> None:
        from pybroker.mirror.copying import Copier as Made

        self._source = source
        self._target = target
        self._options = options
        self._groups = groups
        self._markers = markers
        self._copier: Copier = Made(source, target, markers, filler_records=options.gaps == "records")
        self._bar = ProgressBar("Mirroring")
        self._topics: list[MirroredTopic] = []
        self._total = 0
        self._told: set[str] = set()
        self._left: set[str] = set()

    def run(self) -> None:
        """Until the end, or until it is interrupted: that is how following ends."""
        try:
            self._look()
            if self._options.until_end:
                self._to_the_end()
            else:
                self._follow()
        except KeyboardInterrupt:
            if self._options.until_end:
                raise
            self._copier.flush()
            self._copy_groups()
        finally:
            self._bar.end()
            self._copier.close()
        self._summary()

    def _follow(self) -> None:
        while True:
            until_s = time.monotonic() + self._options.interval
            while time.monotonic() < until_s:
                self._turn()
            self._copier.flush()
            self._copy_groups()
            self._look()

    def _to_the_end(self) -> None:
        """Where the source is now, and again, as long as it still grows."""
        from pybroker.mirror.topics import set_timestamps

        places = [place for topic in self._topics for place in topic.places]
        ends = self._source.ends(places, committed=True, if_there=True)
        while not self._copier.is_at(ends):
            self._turn()
        self._copier.flush()
        self._copy_groups()
        for topic in self._topics:
            set_timestamps(self._target, topic, copying=False)
        now = self._source.ends(ends, if_there=True)
        waiting = sum(1 for place, end in now.items() if end > ends[place])
        if waiting:
            self._note(f"{waiting} partitions have more by now, or records of transactions that are still open")

    def _turn(self) -> None:
        self._copier.turn()
        if self._copier.troubles:
            self._settle()
        done = self._copier.progress
        self._bar.show(done.records + done.filled, self._total, f"{done.records} records, {done.bytes >> 20} MB")

    def _settle(self) -> None:
        """Leave topics that the source gives nothing of any more, as they are gone. Raises CommandError for others."""
        from pybroker.mirror.topics import GONE

        deadline = time.monotonic() + self._target.timeout_s
        while self._copier.troubles:
            name, error = self._copier.troubles.popitem()
            self._find()
            while name not in self._left:  # brokers of a cluster hear of it one after the other
                if error.error_code not in GONE or time.monotonic() > deadline:
                    raise error
                time.sleep(_TURN_S)
                self._find()

    def _find(self) -> list[MirroredTopic]:
        """What there is to be copied. Copies of what was deleted, or made anew, are left as they are."""
        from pybroker.mirror.topics import chosen_topics

        found = chosen_topics(self._source, self._options.topic, self._options.topics, self._topics)
        ids = {topic.name: topic.id for topic in found}
        for topic in self._topics:
            if topic.name not in self._left and ids.get(topic.name) != topic.id:
                self._left.add(topic.name)
                self._copier.drop(topic.places)
                what = "made anew at" if topic.name in ids else "deleted at"
                self._note(f"{topic.name}: it was {what} the source: its copy stays as it is, and others go on")
        self._topics = [topic for topic in self._topics if topic.name not in self._left]
        if self._left and not self._topics and self._options.topic:
            raise CommandError("the source has none of these topics any more")
        return [topic for topic in found if topic.name not in self._left]

    def _look(self) -> None:
        """Take up topics and partitions that are new."""
        from pybroker.mirror.topics import make_alike

        found = self._find()
        known = {place for topic in self._topics for place in topic.places}
        new = [place for topic in found for place in topic.places if place not in known]
        if new:
            fresh = [topic for topic in found if any(place in new for place in topic.places)]
            made = make_alike(self._target, fresh)
            self._wait_for(new)
            if found_before := [topic.name for topic in fresh if topic.name not in made]:
                self._markers().fence(found_before)
            starts = self._source.starts(new, if_there=True)
            ends = self._source.ends(starts, if_there=True)
            begin = self._ends_of_copy(list(ends), ends)
            self._total += sum(ends[place] - begin[place] for place in ends)
            for topic in fresh:
                before = sum(begin[place] for place in topic.places if place in begin)
                row = {"topic": topic.name, "partitions": topic.partitions, "created": topic.name in made}
                self._say({**row, "copied_before": before})
            self._copier.add(begin, starts)
        self._topics = found
        self._cut()
        if not found and self._options.until_end:
            raise CommandError("the source has no such topics")

    def _ends_of_copy(self, places: Sequence[Place], ends: Mapping[Place, int]) -> dict[Place, int]:
        """Where the copy goes on. Raises CommandError where it is none.

        Looked at twice: what a run that was killed had sent may have been on its way.
        """
        from pybroker.mirror.same_records import check_same

        begin = self._target.ends(places)
        while True:
            for place, offset in begin.items():
                if offset > ends[place]:
                    raise CommandError(
                        f"{place[0]}-{place[1]}: the copy ends at {offset}, the source at {ends[place]}: no copy of it"
                    )
            check_same(self._source, self._target, begin)
            again = self._target.ends(places)
            if again == begin:
                return begin
            begin = again

    def _cut(self) -> None:
        from pybroker.mirror.topics import cut_starts

        reached = self._copier.reached
        if reached:
            self._copier.flush()
            for line in cut_starts(self._target, self._source.starts(reached, if_there=True)):
                self._note(line)

    def _wait_for(self, places: Sequence[Place]) -> None:
        """Until the copy's new topics are there, and their leaders know it."""
        from pybroker.mirror.topics import are_there

        deadline = time.monotonic() + self._target.timeout_s
        while not are_there(self._target, places):
            if time.monotonic() > deadline:
                raise CommandError("the copy's topics were made, but do not appear")
            time.sleep(0.05)

    def _copy_groups(self) -> None:
        if self._groups is None:
            return
        for moved in self._groups.copy(self._copier.reached):
            if moved.problem is not None:
                self._note(moved.problem)
            else:
                self._say({"group": moved.group, "offsets": moved.offsets})

    def _say(self, row: dict[str, object]) -> None:
        self._bar.end()
        if self._options.json:
            show([row], as_json=True)
            return
        if "group" in row:
            tell(f"group {row['group']}: {row['offsets']} offsets")
        else:
            how = "made" if row["created"] else f"goes on behind {row['copied_before']} offsets"
            tell(f"topic {row['topic']}: {row['partitions']} partitions, {how}")
        sys.stdout.flush()

    def _note(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._bar.end()
            print(f"pybroker mirror: {harmless(line)}", file=sys.stderr)

    def _summary(self) -> None:
        done = self._copier.progress
        if done.undated:
            self._note(f"{done.undated} records with timestamp 0 have the time of the copy")
        row = {"records": done.records, "bytes": done.bytes, "filled_offsets": done.filled, "topics": len(self._topics)}
        if self._options.json:
            show([row], as_json=True)
        else:
            print(
                f"copied {done.records} records, {done.bytes >> 20} MB, of {len(self._topics)} topics; "
                f"{done.filled} offsets without a record"
            )


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
