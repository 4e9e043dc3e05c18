"""The aborted transactions that overlap a run (KIP-98): from transaction indexes of remote segments, then of the log.

A transaction may be aborted in any later segment. The indexes are read once for a run, until one of them shows that
later ones cannot have more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as bound
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from runtime.deferred import Deferred
from storage.index.transaction import AbortedTransaction

if TYPE_CHECKING:
    from broker.tiering.reading.downloads import Downloads
    from broker.tiering.reading.index_cache import IndexCache
    from broker.tiering.reading.run import Run
    from storage.log.partition_log import PartitionLog
    from tiered.metadata_records import TopicIdPartition
    from tiered.segment import RemoteSegment

#: Segments that are chosen in one turn of the event loop, some 3 ms.
_SEGMENTS = 500


class _Walked(NamedTuple):
    found: list[AbortedTransaction]
    is_complete: bool


class AbortedWalk:
    """Reads the transaction indexes for one run."""

    def __init__(self, indexes: IndexCache, downloads: Downloads, run: Run) -> None:
        self._indexes = indexes
        self._downloads = downloads
        self._run = run
        self._done: Deferred[None] = Deferred()

    def start(
        self,
        partition: TopicIdPartition,
        segments_from: Callable[[int], Iterator[RemoteSegment]],
        local_start_offset: Callable[[], int],
    ) -> Deferred[None]:
        """Return a Deferred that resolves when all is known of remote storage. It fails with RemoteStorageError."""
        self._partition = partition
        self._segments_from = segments_from
        self._local_start_offset = local_start_offset
        self._step()
        return self._done

    def _step(self) -> None:
        segments = list(islice(self._segments_from(self._run.aborted.walked_to), _SEGMENTS))
        if not segments:
            self._run.aborted.walked_to = max(self._run.aborted.walked_to, self._local_start_offset())
            self._done.resolve(None)
            return
        self._downloads.run(bound(self._read, segments)).add_done_callback(
            bound(self._on_read, segments[-1].end_offset + 1)
        )

    def _read(self, segments: list[RemoteSegment]) -> _Walked:
        content, found = self._run.content, []
        for segment in segments:
            for each in self._indexes.aborted(self._partition, segment):
                if each.last_offset >= content.start_offset and each.first_offset < content.end_offset:
                    found.append(each)
                if each.last_stable_offset >= content.end_offset:
                    return _Walked(found, is_complete=True)
        return _Walked(found, is_complete=False)

    def _on_read(self, end_offset: int, reading: Deferred[_Walked]) -> None:
        aborted = self._run.aborted
        try:
            walked = reading.result()
        except Exception as error:
            self._done.fail(error)
            return
        aborted.found += walked.found
        aborted.walked_to, aborted.is_complete = end_offset, walked.is_complete
        if walked.is_complete:
            self._done.resolve(None)
        else:
            self._step()


def overlapping(run: Run, log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [start, end) of a run whose remote ones are known."""
    found = [each for each in run.aborted.found if each.last_offset >= start_offset and each.first_offset < end_offset]
    if not run.aborted.is_complete:
        known = set(found)
        found += [each for each in log.aborted_transactions(start_offset, end_offset) if each not in known]
    return found
