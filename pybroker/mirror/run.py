"""One run of `pybroker mirror`: find topics, copy them and their groups, until the end or an interrupt.

A partition that fails is tried again later, and the others continue. If no broker responds, the run waits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session, failed
from pybroker.mirror.beginning import find_beginnings
from pybroker.mirror.copying import Copier
from pybroker.mirror.groups import GroupOffsets
from pybroker.mirror.interrupt import Interrupt
from pybroker.mirror.partition import BeginAgain
from pybroker.mirror.reports import Reports
from pybroker.mirror.topics import MirroredTopic, chosen_topics, cut_starts, set_timestamps
from pybroker.mirror.troubles import Troubles, named

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

_FLUSH_S = 5.0
_ASK_EVERY_S = 1.0
#: A topic that is missing twice, with this time in between, was deleted: a broker may learn of a new topic late.
_MISSING_S = 1.0


class NothingLeft(CommandError):
    """No partition can be copied any more."""


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
        interrupt: Interrupt,
    ) -> None:
        self._interrupt = interrupt
        self._source = source
        self._target = target
        self._options = options
        self._groups = groups
        self._markers = markers
        self._copier = Copier(source, target, markers, filler_records=options.gaps == "records")
        self._reports = Reports(as_json=options.json)
        self._topics: list[MirroredTopic] | None = None
        self._unknown: dict[str, CommandError] = {}
        self._missing: dict[str, float] = {}
        self._left: set[str] = set()
        self._begun: set[Place] = set()
        self._troubles = Troubles(target.timeout_s)
        self._ends: dict[Place, int] = {}
        self._looked_s = 0.0
        self._removed: dict[Place, int] = {}

    def run(self) -> None:
        """Copy until the end; with --follow, until an interrupt. CommandError if something is not copied."""
        try:
            self._look()
            self._check_left()
            self._report()
            if self._options.until_end:
                self._to_the_end()
            else:
                self._follow()
        except KeyboardInterrupt:
            if self._options.until_end:
                raise
            self._copier.flush(self._target.timeout_s)
            self._try(self._copy_groups)
        finally:
            self._reports.end()
            self._copier.close()
        if not self._begun and self._troubles.open:
            raise next(iter(self._troubles.open.values()))
        self._reports.summary(self._copier.progress, len(self._topics or ()))
        open_ = [place for place, error in self._troubles.open.items() if not isinstance(error, BeginAgain)]
        if problems := [*self._unknown, *([named(open_)] if open_ else ())]:
            raise CommandError(f"not copied completely: {', '.join(problems)}")

    def _follow(self) -> None:
        while True:
            until_s = time.monotonic() + self._options.interval
            while time.monotonic() < until_s:
                self._turn()
            self._copier.flush(_FLUSH_S)
            self._try(self._copy_groups)
            self._try(self._look)
            self._try(self._cut)
            for place in self._copier.waiting:
                self._reports.note(f"{place[0]}-{place[1]}: the target acknowledges no record: waiting")

    def _to_the_end(self) -> None:
        """Copy up to the current ends of the source, and repeat while it grows."""
        self._find_ends()
        give_up_s = time.monotonic() + self._target.timeout_s
        while (
            not self._copier.is_at(self._ends)
            or not self._troubles.are_given_up()
            or (self._unknown and time.monotonic() < give_up_s)
        ):
            self._turn()
            self._find_ends()
        self._copier.flush(self._target.timeout_s)
        self._copy_groups()
        self._cut()
        incomplete = {topic for topic, _ in self._troubles.open}
        for topic in self._topics or ():
            if topic.name not in incomplete:
                self._try(lambda topic=topic: set_timestamps(self._target, topic, copying=False))  # type: ignore[misc]
        now = self._source.found_ends(self._ends).offsets
        if waiting := sum(1 for place, end in now.items() if end > self._ends[place]):
            self._reports.note(f"{waiting} partitions have new records, or records of open transactions")

    def _find_ends(self) -> None:
        """Find the ends of partitions that have begun since the last time."""
        if new := [place for place in self._copier.reached if place not in self._ends]:
            found = self._source.found_ends(new, committed=True)
            self._ends.update(found.offsets)
            if found.errors:
                self._copier.drop(list(found.errors))
                self._troubles.add(found.errors)

    def _turn(self) -> None:
        self._interrupt.check()
        try:
            self._copier.turn()
        except CommandError as error:
            self._wait_for_brokers(error)
        if self._copier.troubles:
            self._troubles.add(self._copier.troubles)
            self._copier.troubles.clear()
        if self._troubles.is_any_due() or (self._unknown and time.monotonic() - self._looked_s > _ASK_EVERY_S):
            self._try(self._look)
        self._check_left()
        self._report()
        self._reports.show(self._copier.progress)

    def _wait_for_brokers(self, error: CommandError) -> None:
        """Wait until both clusters respond; with --until-end not longer than the timeout."""
        deadline = time.monotonic() + self._target.timeout_s
        while not (self._source.responds() and self._target.responds()):
            self._reports.outage(f"{error}: waiting")
            if self._options.until_end and time.monotonic() > deadline:
                raise error
            time.sleep(_ASK_EVERY_S)
            self._interrupt.check()
        self._copier.resume()

    def _try(self, step: Callable[[], None]) -> None:
        """Do a step; report an error and continue, as it is repeated later."""
        try:
            step()
        except NothingLeft:
            raise
        except CommandError as error:
            self._reports.outage(f"{error}: trying again")
        except KafkaException as error:
            self._reports.outage(f"{failed(error)}: trying again")

    # -- topics -------------------------------------------------------------------------------------------------------

    def _find(self) -> list[MirroredTopic]:
        """Return the topics to copy, without topics that were deleted or recreated at the source."""
        chosen = chosen_topics(self._source, self._options.topic, self._options.topics, self._topics)
        self._unknown = chosen.errors
        for name, error in chosen.errors.items():
            self._reports.note(f"{name}: {str(error).removeprefix(f'{name}: ')}: trying again, and the others continue")
        ids = {topic.name: topic.id for topic in chosen.topics}
        known = self._topics or []
        for topic in known:
            if topic.name in self._left or topic.name in chosen.errors or ids.get(topic.name) == topic.id:
                self._missing.pop(topic.name, None)
                continue
            since_s = self._missing.setdefault(topic.name, time.monotonic())
            if topic.name in ids or time.monotonic() - since_s >= _MISSING_S:
                self._leave(topic, "recreated at" if topic.name in ids else "deleted at")
        kept = [topic for topic in known if topic.name not in self._left and topic.name not in ids]
        self._topics = [topic for topic in known if topic.name not in self._left]
        if self._left and not self._topics and self._options.topic and not self._unknown:
            raise NothingLeft("the source no longer has any of these topics")
        return [*(topic for topic in chosen.topics if topic.name not in self._left), *kept]

    def _leave(self, topic: MirroredTopic, what: str) -> None:
        """Stop copying a topic that was deleted or recreated."""
        self._left.add(topic.name)
        self._copier.drop(topic.places)
        self._troubles.forget(topic.places)
        self._ends = {place: end for place, end in self._ends.items() if place[0] != topic.name}
        self._reports.note(
            f"{topic.name}: it was {what} the source: its copy stays unchanged, and the other topics continue"
        )

    def _look(self) -> None:
        """Start to copy new topics and partitions, and those whose trouble may have passed."""
        is_first = self._topics is None
        self._looked_s = time.monotonic()
        found = self._find()
        reached = self._copier.reached
        wanted = [
            place
            for topic in found
            for place in topic.places
            if place not in reached and self._troubles.may_begin(place)
        ]
        if wanted:
            self._begin([topic for topic in found if any(place in topic.places for place in wanted)], wanted)
        self._topics = found
        if is_first:
            self._cut()
        if not found and self._options.until_end and not self._unknown and not self._left:
            raise NothingLeft("the source has no such topics")

    def _begin(self, topics: list[MirroredTopic], places: list[Place]) -> None:
        beginning = find_beginnings(self._source, self._target, self._markers, topics, places)
        self._troubles.add(beginning.errors)
        begin = beginning.begin
        self._reports.total += sum(
            beginning.ends[place] - offset for place, offset in begin.items() if place not in self._begun
        )
        for topic in topics:
            own = [place for place in topic.places if place in begin]
            if any(place not in self._begun for place in own):
                before = sum(begin[place] for place in own)
                self._reports.topic(topic.name, topic.partitions, before, is_created=topic.name in beginning.made)
            elif own and topic.name in beginning.made:
                self._reports.note(f"{topic.name}: its copy was deleted: it is copied again from its start", again=True)
        for place, offset in begin.items():
            if 0 < offset < (start := beginning.starts[place]) and self._removed.get(place) != start:
                self._removed[place] = start
                removed = f"the source removed the records from offset {offset} to {start - 1} before they were copied"
                self._reports.note(f"{place[0]}-{place[1]}: {removed}")
        if not_compared := len(beginning.not_compared - self._begun):
            text = f"partitions of the copy without a record to compare with the source: {not_compared}"
            self._reports.note(text)
        self._troubles.settle(begin)
        self._begun.update(begin)
        self._copier.add(begin, beginning.starts)

    def _cut(self) -> None:
        if reached := self._copier.reached:
            for line in cut_starts(self._target, self._source.found_starts(reached).offsets):
                self._reports.note(line)

    def _check_left(self) -> None:
        """Raise the first trouble if no partition can be copied, and waiting helps none."""
        troubles = self._troubles.open
        if troubles and not self._copier.reached and self._troubles.are_final() and not self._unknown:
            raise NothingLeft(str(next(iter(troubles.values()))))

    def _report(self) -> None:
        if self._options.until_end and not self._begun:
            return  # the only line is the error at the end
        for line in self._troubles.to_report():
            self._reports.note(line)
        for place in self._troubles.recovered():
            self._reports.note(f"{place[0]}-{place[1]}: is copied again", again=True)

    def _copy_groups(self) -> None:
        if self._groups is None:
            return
        for moved in self._groups.copy(self._copier.reached):
            if moved.problem is not None:
                self._reports.note(moved.problem)
            if moved.offsets:
                self._reports.group(moved.group, moved.offsets)
