"""One run of `pybroker mirror`: find topics, copy them and their groups, until the end or an interrupt."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.progress import ProgressBar
from pybroker.cli.client.session import Place, Session
from pybroker.cli.terminal_escape import escape_controls
from pybroker.mirror.copying import Copier
from pybroker.mirror.groups import GroupOffsets
from pybroker.mirror.same_records import check_same
from pybroker.mirror.topics import (
    GONE,
    MirroredTopic,
    are_there,
    chosen_topics,
    create_missing,
    cut_starts,
    set_timestamps,
)

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

_TURN_S = 0.2


def marker_maker(stack: ExitStack, session: Session, prefix: str) -> Callable[[], Markers]:
    """Return a function that creates the writer of markers at first use: a new copy may not need its library."""
    made: list[Markers] = []

    def markers() -> Markers:
        if not made:
            client = stack.enter_context(session.administration())
            from pybroker.mirror.gaps import Markers

            made.append(Markers(client, prefix, session.timeout_s))
        return made[0]

    return markers


class MirrorRun:
    """One run over all topics, which looks for new topics and partitions repeatedly."""

    def __init__(
        self,
        source: Session,
        target: Session,
        options: argparse.Namespace,
        groups: GroupOffsets | None,
        markers: Callable[[], Markers],
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._groups = groups
        self._markers = markers
        self._copier = Copier(source, target, markers, filler_records=options.gaps == "records")
        self._bar = ProgressBar("Mirroring")
        self._topics: list[MirroredTopic] = []
        self._total = 0
        self._reported: set[str] = set()
        self._left: set[str] = set()

    def run(self) -> None:
        """Copy until the end; with --follow, until an interrupt."""
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
        """Copy up to the current ends of the source, and repeat while it grows."""
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
            self._note(f"{waiting} partitions have new records, or records of open transactions")

    def _turn(self) -> None:
        self._copier.turn()
        if self._copier.troubles:
            self._settle()
        done = self._copier.progress
        self._bar.show(done.records + done.filled, self._total, f"{done.records} records, {done.bytes >> 20} MB")

    def _settle(self) -> None:
        """Drop topics that were deleted at the source. Raises CommandError for any other error of a topic."""
        deadline = time.monotonic() + self._target.timeout_s
        while self._copier.troubles:
            name, error = self._copier.troubles.popitem()
            self._find()
            while name not in self._left:  # the brokers of a cluster learn of a deletion one after the other
                if error.error_code not in GONE or time.monotonic() > deadline:
                    raise error
                time.sleep(_TURN_S)
                self._find()

    def _find(self) -> list[MirroredTopic]:
        """Return the topics to copy, without topics that were deleted or recreated at the source."""
        found = chosen_topics(self._source, self._options.topic, self._options.topics, self._topics)
        ids = {topic.name: topic.id for topic in found}
        for topic in self._topics:
            if topic.name not in self._left and ids.get(topic.name) != topic.id:
                self._left.add(topic.name)
                self._copier.drop(topic.places)
                what = "recreated at" if topic.name in ids else "deleted at"
                self._note(
                    f"{topic.name}: it was {what} the source: its copy stays unchanged, and the other topics continue"
                )
        self._topics = [topic for topic in self._topics if topic.name not in self._left]
        if self._left and not self._topics and self._options.topic:
            raise CommandError("the source no longer has any of these topics")
        return [topic for topic in found if topic.name not in self._left]

    def _look(self) -> None:
        """Start to copy new topics and partitions."""
        found = self._find()
        known = {place for topic in self._topics for place in topic.places}
        new = [place for topic in found for place in topic.places if place not in known]
        if new:
            fresh = [topic for topic in found if any(place in new for place in topic.places)]
            made = create_missing(self._target, fresh)
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
        """Return where the copy continues. Raises CommandError for a topic that is not a copy.

        It asks until the ends stay the same, because records of a killed run may still arrive.
        """
        begin = self._target.ends(places)
        while True:
            for place, offset in begin.items():
                if offset > ends[place]:
                    raise CommandError(
                        f"{place[0]}-{place[1]}: the copy ends at {offset}, the source at {ends[place]}: not a copy"
                    )
            not_compared = check_same(self._source, self._target, begin)
            again = self._target.ends(places)
            if again == begin:
                if not_compared:
                    self._note(f"partitions of the copy without a record to compare with the source: {not_compared}")
                return begin
            begin = again

    def _cut(self) -> None:
        reached = self._copier.reached
        if reached:
            self._copier.flush()
            for line in cut_starts(self._target, self._source.starts(reached, if_there=True)):
                self._note(line)

    def _wait_for(self, places: Sequence[Place]) -> None:
        """Wait until the new topics of the copy exist and their leaders serve them."""
        deadline = time.monotonic() + self._target.timeout_s
        while not are_there(self._target, places):
            if time.monotonic() > deadline:
                raise CommandError("the topics of the copy were created, but do not appear")
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
            print_line(f"group {row['group']}: {row['offsets']} offsets")
        else:
            how = "made" if row["created"] else f"goes on behind {row['copied_before']} offsets"
            print_line(f"topic {row['topic']}: {row['partitions']} partitions, {how}")
        sys.stdout.flush()

    def _note(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._bar.end()
            print(f"pybroker mirror: {escape_controls(line)}", file=sys.stderr)

    def _summary(self) -> None:
        done = self._copier.progress
        if done.undated:
            self._note(f"{done.undated} records with timestamp 0 got the time of the copy")
        row = {"records": done.records, "bytes": done.bytes, "filled_offsets": done.filled, "topics": len(self._topics)}
        if self._options.json:
            show([row], as_json=True)
        else:
            print(
                f"copied {done.records} records, {done.bytes >> 20} MB, of {len(self._topics)} topics; "
                f"{done.filled} offsets without a record"
            )
