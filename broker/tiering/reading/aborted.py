"""The aborted transactions that overlap a run (KIP-98): from transaction indexes of remote segments, then of the log.

A transaction may be aborted in any later segment. The indexes are read once for a run, until one of them shows that
later ones cannot have more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial as bound
from itertools import islice
from typing import TYPE_CHECKING

from runtime.deferred import Deferred
from storage.index.transaction import AbortedTransaction

if TYPE_CHECKING:
    from broker.tiering.reading.downloads import Downloads
    from broker.tiering.reading.index_cache import IndexCache
    from broker.tiering.reading.run import Run
    from broker.tiering.remote_logs import RemoteLog
    from storage.log.partition_log import PartitionLog
    from tiered.segment import RemoteSegment

#: Segments that are looked at in one turn of the event loop, some 4 ms.
_SEGMENTS = 500


class IndexedSegments:
    """The segments of a remote log that may have a transaction index, in order.

    Few have one. Those up to the local log start offset are looked at once, and again in another leader epoch.
    """

    __slots__ = ("_ends", "_epoch", "_known_to", "_segments")

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._known_to = 0
        self._segments: list[RemoteSegment] = []
        #: The last offset of each.
        self._ends: list[int] = []

    def forget(self) -> None:
        """Look at all segments again: one of them may be gone."""
        self._epoch = None

    def learn(self, log: PartitionLog, segments_from: Callable[[int], Iterator[RemoteSegment]]) -> bool:
        """Look at more segments. Return whether those up to the local log start offset are known now."""
        epoch = log.leader_epochs.latest
        if self._epoch is None or self._epoch != epoch:
            self._epoch, self._known_to = epoch, log.log_start_offset
            self._segments, self._ends = [], []
        seen = 0
        for segment in islice(segments_from(max(self._known_to, log.log_start_offset)), _SEGMENTS):
            seen += 1
            self._known_to = segment.end_offset + 1
            if not segment.has_no_aborted:
                self._segments.append(segment)
                self._ends.append(segment.end_offset)
        if seen < _SEGMENTS:
            self._known_to = max(self._known_to, log.local_start_offset)
        return self._known_to >= log.local_start_offset

    def next(self, offset: int) -> RemoteSegment | None:
        """Return the first segment that ends at `offset` or later."""
        at = bisect_left(self._ends, offset)
        return self._segments[at] if at < len(self._segments) else None


class AbortedWalk:
    """Reads the transaction indexes for one run, of one segment after the other."""

    def __init__(
        self,
        indexes: IndexCache,
        downloads: Downloads,
        run: Run,
        remote_log: RemoteLog,
        log: PartitionLog,
        segments_from: Callable[[int], Iterator[RemoteSegment]],
    ) -> None:
        self._indexes = indexes
        self._downloads = downloads
        self._run = run
        self._partition = remote_log.partition
        self._indexed = remote_log.indexed = remote_log.indexed or IndexedSegments()
        self._log = log
        self._segments_from = segments_from
        self._done: Deferred[None] = Deferred()

    def start(self) -> Deferred[None] | None:
        """Return a Deferred that resolves when all is known of remote storage; None if that is so at once.

        It fails with RemoteStorageError, which is also raised.
        """
        self._step()
        if not self._done.done:
            return self._done
        self._done.result()
        return None

    def _step(self) -> None:
        aborted = self._run.aborted
        if not self._indexed.learn(self._log, self._segments_from):
            self._downloads.run(_nothing).add_done_callback(lambda _: self._step())  # in a later turn
            return
        segment = None if aborted.is_complete else self._indexed.next(aborted.walked_to)
        if segment is None:
            aborted.walked_to = max(aborted.walked_to, self._log.local_start_offset)
            self._done.resolve(None)
        else:
            self._downloads.run(bound(self._read, segment)).add_done_callback(
                bound(self._on_read, segment.end_offset + 1)
            )

    def _read(self, segment: RemoteSegment) -> list[AbortedTransaction]:
        return self._indexes.aborted(self._partition, segment)

    def _on_read(self, end_offset: int, reading: Deferred[list[AbortedTransaction]]) -> None:
        aborted, content = self._run.aborted, self._run.content
        try:
            entries = reading.result()
        except Exception as error:
            self._indexed.forget()
            self._done.fail(error)
            return
        for each in entries:
            if each.last_offset >= content.start_offset and each.first_offset < content.end_offset:
                aborted.found.append(each)
            if each.last_stable_offset >= content.end_offset:
                aborted.is_complete = True
                break
        aborted.walked_to = end_offset
        self._step()


def _nothing() -> None:
    """Take the time of a turn of the event loop."""


def overlapping(run: Run, log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [start, end) of a run whose remote ones are known."""
    found = [each for each in run.aborted.found if each.last_offset >= start_offset and each.first_offset < end_offset]
    if not run.aborted.is_complete:
        known = set(found)
        found += [each for each in log.aborted_transactions(start_offset, end_offset) if each not in known]
    return found
