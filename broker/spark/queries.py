"""Queries of Spark that `pybroker.spark.checkpoints` names: read by a thread, known on the loop.

Every pybroker.spark.checkpoints.interval.ms a thread looks at all checkpoints, and the loop takes over what it has
found; a look that takes long, as a file system that is away may have it, is waited for by nobody. Each process of
several reads all of them, as each has partitions of its own; the owner alone tells of what cannot be read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

from broker.log_limit import LimitedLog
from broker.spark.checkpoints import Checkpoints, Found
from storage.checkpoints import TopicPartition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.timers import Timer, Timers

log = logging.getLogger(__name__)


class SparkQueries:
    """Its methods belong to the event loop's thread. `found` is what the last look has found; before the first, None.

    Args:
        paths: checkpoints, or folders of them.
        in_thread: has a thread call what it is given, and waits for nothing; None ends the thread.
    """

    def __init__(
        self,
        paths: Sequence[str],
        interval_ms: int,
        loop: AbstractEventLoop,
        timers: Timers,
        *,
        tells_problems: bool = True,
        in_thread: Callable[[Callable[[], None] | None], None] | None = None,
    ) -> None:
        self._checkpoints = Checkpoints(paths)
        self._interval_ms = interval_ms
        self._loop = loop
        self._timers = timers
        self._tells_problems = tells_problems
        self._in_thread = in_thread or _new_thread()
        self._timer: Timer | None = None
        self._stopped = False
        self._log = LimitedLog(log)
        self._told: set[str] = set()
        self._names: frozenset[str] = frozenset()
        self.found: Found | None = None

    # -- what it knows -------------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether there are no other queries than those that are known."""
        return self.found is not None and self.found.is_known

    def positions(self) -> Mapping[TopicPartition, int]:
        """From which offset on queries have still to read partitions."""
        return self.found.positions if self.found is not None else {}

    def name_of(self, place: TopicPartition) -> str:
        """The query that is furthest behind in a partition."""
        return f"the query {self.found.behind[place]}" if self.found is not None else "a query"

    def awaited_by(self, place: TopicPartition) -> Sequence[tuple[str, int]]:
        """The queries that read a partition's topic and do not know of the partition yet, and when they were begun."""
        followers = self.found.followers.get(place[0], ()) if self.found is not None else ()
        return [(f"the query {each.name}", each.begun_ms) for each in followers if place[1] >= each.partitions]

    # -- looking -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look, now and again and again."""
        self._in_thread(self._look)

    def stop(self) -> None:
        """Look no more. One look may still be under way, of which nothing comes."""
        self._stopped = True
        self._in_thread(None)
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """In the thread."""
        try:
            found = self._checkpoints.look()
        except Exception:  # else nobody would look any more
            log.exception("The checkpoints of Spark's queries could not be looked at")
            found = None
        try:
            self._loop.call_soon_threadsafe(self._take, found)
        except RuntimeError:
            log.debug("A look at checkpoints was over after the loop had been closed")

    def _take(self, found: Found | None) -> None:
        if self._stopped:
            return
        if found is not None:
            self.found = found
            if self._tells_problems:
                self._tell(found)
        self._timer = self._timers.call_later(self._interval_ms, lambda: self._in_thread(self._look))

    def _tell(self, found: Found) -> None:
        for path, problem in found.problems.items():
            if path not in self._told:
                held = "" if found.is_known else "; until it can be, retention.hold.max.bytes of all topics are held"
                self._log.warning("The checkpoint %s cannot be read: %s%s", path, problem, held)
        self._told = set(found.problems)
        names = frozenset(query.name for query in found.queries)
        if names != self._names:
            log.info("Queries of Spark that are followed: %s", _some(sorted(names)))
            self._names = names


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "none"


def _new_thread() -> Callable[[Callable[[], None] | None], None]:
    """A thread for one call after the other. It lasts: to start one takes the loop as long as the machine is busy."""
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def work() -> None:
        while (call := calls.get()) is not None:
            call()

    threading.Thread(target=work, name="spark-checkpoints", daemon=True).start()
    return calls.put
