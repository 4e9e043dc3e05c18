"""Partitions that are not copied now: why, when they are tried again, and what to report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place
from pybroker.mirror.partition import BeginAgain, NotACopy
from pybroker.mirror.topics import GONE

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 60.0
#: If a partition was copied for this long since its last error, the next error is a new trouble.
_QUIET_S = 60.0
_RECOVERED_S = 5.0


@dataclass(slots=True)
class Trouble:
    """An error that keeps a partition from being copied, and its history. Times are of the monotonic clock."""

    error: CommandError
    since_s: float
    last_s: float
    attempts: int
    is_open: bool = True
    is_reported: bool = False

    @property
    def is_final(self) -> bool:
        """Whether waiting does not help."""
        return isinstance(self.error, NotACopy)

    @property
    def due_s(self) -> float:
        """Return when to try again."""
        if self.attempts == 1 and isinstance(self.error, BeginAgain):
            return self.last_s
        return self.last_s + min(_FIRST_PAUSE_S * 2.0 ** min(self.attempts - 1, 20), _LONGEST_PAUSE_S)


class Troubles:
    """The troubles of partitions. Those of a partition that is copied again are kept for a minute.

    Args:
        patience_s: after this time a partition counts as given up, and a topic that is unknown as not deleted.
    """

    def __init__(self, patience_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._now_s = now_s
        self._known: dict[Place, Trouble] = {}

    def add(self, errors: Mapping[Place, CommandError]) -> None:
        """Record errors; each is tried again after a longer pause than the last one."""
        now = self._now_s()
        for place, error in errors.items():
            known = self._known.get(place)
            if known is None or (not known.is_open and now - known.last_s > _QUIET_S):
                self._known[place] = Trouble(error, now, now, 1)
                continue
            if isinstance(error, BeginAgain) or isinstance(known.error, BeginAgain):
                known.since_s = now
            known.is_reported &= str(known.error) == str(error)
            known.error, known.last_s, known.is_open = error, now, True
            known.attempts += 1

    def settle(self, places: Iterable[Place]) -> None:
        """Record that partitions are copied again, until their next trouble."""
        for place in places:
            known = self._known.get(place)
            if known is not None and known.is_open:
                known.is_open = False
                known.last_s = self._now_s()

    def recovered(self) -> list[Place]:
        """Return the partitions whose trouble was reported, and that have been copied again for a while; once each."""
        now = self._now_s()
        found = []
        for place, each in self._known.items():
            if each.is_reported and not each.is_open and now - each.last_s > _RECOVERED_S:
                each.is_reported = False
                found.append(place)
        return found

    def forget(self, places: Iterable[Place]) -> None:
        """Forget partitions that are no longer to be copied."""
        for place in places:
            self._known.pop(place, None)

    def may_begin(self, place: Place) -> bool:
        """Whether a partition that is not copied may begin now."""
        known = self._known.get(place)
        return known is None or not known.is_open or (not known.is_final and self._now_s() >= known.due_s)

    def is_any_due(self) -> bool:
        """Whether a partition may be tried again now."""
        return any(each.is_open and self.may_begin(place) for place, each in self._known.items())

    @property
    def open(self) -> dict[Place, CommandError]:
        """Return the error of each partition that is not copied."""
        return {place: each.error for place, each in self._known.items() if each.is_open}

    def are_final(self) -> bool:
        """Whether waiting helps none of the troubles."""
        return all(not each.is_open or each.is_final for each in self._known.values())

    def are_given_up(self) -> bool:
        """Whether all troubles are final or older than the patience."""
        now = self._now_s()
        return all(
            not each.is_open or each.is_final or now - each.since_s > self._patience_s for each in self._known.values()
        )

    def to_report(self) -> list[str]:
        """Return a line for each new trouble, partitions of a topic together, and count them as reported."""
        now = self._now_s()
        lines: dict[tuple[str, str, bool], list[Place]] = defaultdict(list)
        for place, each in self._known.items():
            if not each.is_open or each.is_reported or isinstance(each.error, BeginAgain):
                continue
            if each.error.error_code in GONE and now - each.since_s <= self._patience_s:
                continue  # its deletion may be known soon
            each.is_reported = True
            what = str(each.error).removeprefix(f"{place[0]}-{place[1]}: ").removeprefix(f"{place[0]}: ")
            lines[place[0], what, each.is_final].append(place)
        return [
            f"{named(places)}: {what}: {'left out' if is_final else 'trying again'}, and the others continue"
            for (_, what, is_final), places in lines.items()
        ]


def named(places: Collection[Place]) -> str:
    """Return partitions in a few words: `orders-1`, or `orders: 12 partitions`."""
    topics = sorted({topic for topic, _ in places})
    if len(places) == 1:
        ((topic, partition),) = places
        return f"{topic}-{partition}"
    return f"{', '.join(topics)}: {len(places)} partitions"
