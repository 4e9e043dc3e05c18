"""The Spark queries of `pybroker.spark.checkpoints`: a thread reads their checkpoints, the loop uses the results.

With several processes each reads all of them, every pybroker.spark.checkpoints.interval.ms, since each hosts partitions
of its own. Only the owner logs those that cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.external_readers.poller import InThread, Poller
from broker.external_readers.spark.checkpoints import CheckpointCheck, Checkpoints
from runtime.log_limit import LimitedLog
from runtime.log_text import first_names
from storage.checkpoints import TopicPartition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from runtime.timers import Timers

log = logging.getLogger(__name__)


class SparkQueries:
    """The queries as a Reader. Belongs to the event loop's thread. `found`: the last check's result; None before it.

    Args:
        paths: checkpoints, or folders of them.
        in_thread: as for Poller.
    """

    def __init__(
        self,
        paths: Sequence[str],
        interval_ms: int,
        loop: AbstractEventLoop,
        timers: Timers,
        *,
        in_thread: InThread | None = None,
    ) -> None:
        look = Checkpoints(paths).look
        self._poller = Poller("Spark checkpoints", look, self._take, interval_ms, loop, timers, in_thread)
        self._log = LimitedLog(log)
        self._reported: set[str] = set()
        self._names: frozenset[str] = frozenset()
        self.found: CheckpointCheck | None = None

    # -- what retention asks -------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether all queries are known."""
        return self.found is not None and self.found.is_known

    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset from which on queries still read each partition."""
        return self.found.positions if self.found is not None else {}

    def name_of(self, place: TopicPartition) -> str:
        """Return the query that is furthest behind in a partition."""
        return f"the query {self.found.behind[place]}" if self.found is not None else "a query"

    def readers_from_beginning(self, place: TopicPartition) -> Sequence[tuple[str, int]]:
        """Return the queries that read the topic but do not know the partition yet, and when they began."""
        followers = self.found.followers.get(place[0], ()) if self.found is not None else ()
        return [(f"the query {each.name}", each.begun_ms) for each in followers if place[1] >= each.partitions]

    # -- checks --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Check now, and then at intervals."""
        self._poller.start()

    def stop(self) -> None:
        """Stop checking."""
        self._poller.stop()

    def _take(self, found: CheckpointCheck) -> None:
        self.found = found
        self._log_changes(found)

    def _log_changes(self, found: CheckpointCheck) -> None:
        for path, problem in found.problems.items():
            if path not in self._reported:
                held = "" if found.is_known else "; until then retention.hold.max.bytes of all topics are held"
                self._log.warning("The checkpoint %s cannot be read: %s%s", path, problem, held)
        self._reported = set(found.problems)
        names = frozenset(query.name for query in found.queries)
        if names != self._names:
            log.info("Queries of Spark that are followed: %s", first_names(sorted(names)))
            self._names = names
