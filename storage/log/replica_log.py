"""The log of one replica: which records exist, are committed and are stable, and what is derived from them.

    log start offset <= last stable offset <= high watermark <= log end offset;  recovery point <= log end offset

It adds to LocalLog the leader epochs, the producers, and the appends of a leader's batches. PartitionLog adds the
appends of clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from protocol.records.batch import BatchHeader
from storage.errors import OffsetOutOfRange
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import EpochEntry, LeaderEpochs
from storage.log.local_log import LocalLog
from storage.log_config import INT_MAX, LogConfig
from storage.producers.loading import load_producers
from storage.producers.markers import note_batch
from storage.producers.snapshot import snapshot_path, write_snapshot
from storage.producers.state import ProducerState
from storage.segment.scan import Entry
from storage.segment.segment_list import Segments

#: Indexes of fields in a BatchHeader.
_LEADER_EPOCH, _PRODUCER_ID = BatchHeader._fields.index("leader_epoch"), BatchHeader._fields.index("producer_id")


class ReplicaLog(LocalLog):
    """The log of one replica; the class that is used is PartitionLog."""

    __slots__ = (
        "_epoch",
        "copied_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epochs",
        "producer_state",
        "replicated",
        "snapshots",
        "topic_id",
    )

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: Segments,
        producer_state: ProducerState,
        leader_epochs: LeaderEpochs,
        snapshots: list[int],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: bytes | None = None,
    ) -> None:
        #: With other replicas `advance_high_watermark` moves the high watermark; otherwise it is the log end offset.
        self.replicated = False
        super().__init__(
            directory,
            path,
            topic,
            partition,
            config,
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
        )
        self.topic_id = topic_id
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        #: Offsets of the existing producer snapshots, ascending.
        self.snapshots = snapshots
        self.high_watermark = self.last_stable_offset = log_end_offset
        #: The last offset that remote storage has, which local retention may not pass; -1: nothing is copied.
        self.copied_offset = -1
        self._epoch = -1
        self._move_stable_offset()

    # -- appends of a leader's batches -------------------------------------------------------------------------------

    def append_replicated(
        self, records: memoryview, *, now_ms: int, max_epoch: int = INT_MAX, min_epoch: int | None = None
    ) -> int:
        """Append whole batches of another log with their offsets and leader epochs, one write for each segment.

        Returns their size in bytes. Batches of epochs above `max_epoch` and a partial batch at the end are left out.
        With `min_epoch`, epochs may not fall below it, nor from batch to batch.
        Raises UnexpectedAppendOffset for offsets below the end of this log and CorruptRecords for damaged bytes; then
        nothing is appended. Raises LogOffline.
        """
        from storage.append.replicated import checked_entries

        if self.directory.failure is not None or self.closed:
            self.check_usable()
        entries = checked_entries(records, self.log_end_offset, max_epoch, min_epoch)
        position = 0
        fit = entries and self._have_room(entries, now_ms)
        for run in (entries,) if fit else self._rolled_runs(entries, now_ms):
            end = run[-1].position + run[-1].size_bytes
            self._write_run(records if end == len(records) and not position else records[position:end], run)
            position = end
            for at, size_bytes, base_offset, last_offset, _, _, header in run:
                if header is not None:
                    if header[_LEADER_EPOCH] != self._epoch:
                        self._begin_epoch(header[_LEADER_EPOCH], base_offset)
                    if header[_PRODUCER_ID] >= 0:
                        self._note_batch(records[at : at + size_bytes], header, last_offset)
            self.producer_state.end_offset = self.log_end_offset
        if not self.replicated:
            self.high_watermark = self.log_end_offset
        if self.producer_state.transactions:
            self._move_stable_offset()
        else:
            self.last_stable_offset = self.high_watermark
        return position

    def _write_run(self, view: memoryview, run: Sequence[Entry]) -> None:
        """Write batches to the active segment by one system call (rules W1, W2). Raises LogOffline."""
        try:
            self._active.append_run(view, run)
        except OSError as error:
            with suppress(OSError):
                self._active.undo_append()
            raise self.directory.fail(error) from error
        if self._recent_offsets:
            self._forget_positions()
        self.size_bytes += len(view)
        self.log_end_offset = run[-1].last_offset + 1

    def _rolled_runs(self, entries: list[Entry], now_ms: int) -> Iterator[list[Entry]]:
        """Yield the entries that fit into the active segment together; roll it before each later run."""
        run: list[Entry] = []
        size_bytes = 0
        for entry in entries:
            needed = size_bytes + entry.size_bytes
            active = self._active
            if active.index_room <= len(run) or active.must_roll(
                self._config, needed, entry.last_offset, entry.max_timestamp, now_ms
            ):
                if run:
                    yield run
                    run, needed = [], entry.size_bytes
                with self.directory.offline_on_error():
                    self.roll(entry.base_offset, now_ms)
            run.append(entry)
            size_bytes = needed
        if run:
            yield run

    def _have_room(self, entries: list[Entry], now_ms: int) -> bool:
        """Return whether all entries fit into the active segment, as nearly always."""
        last = entries[-1]
        newest = last.max_timestamp
        if len(entries) > 1:
            newest = max([each.max_timestamp for each in entries])
        size_bytes = last.position + last.size_bytes
        active = self._active
        return active.index_room >= len(entries) and not active.must_roll(
            self._config, size_bytes, last.last_offset, newest, now_ms
        )

    def _note_batch(self, view: memoryview, header: BatchHeader, last_offset: int) -> None:
        aborted = self._active.txn_index
        had_any = aborted.may_have_any
        try:
            note_batch(self.producer_state, aborted, view, header, last_offset)
            if not had_any and aborted.may_have_any:
                self.mark_unsynced(self.path)  # the index is a new file, and nothing detects its loss
        except OSError as error:
            # The records are written, but without the index entry consumers would read them as committed. So the
            # directory fails even if only a descriptor was missing, and recovery rebuilds the transaction index.
            raise self.directory.fail(error, half_done=True) from error

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self._note_epoch(self.leader_epochs.assign, leader_epoch, start_offset)
        self._epoch = leader_epoch

    def _note_epoch(self, note: Callable[[int, int], bool], leader_epoch: int, start_offset: int) -> None:
        if leader_epoch >= 0:
            with self.directory.offline_on_error():
                if note(leader_epoch, start_offset):
                    self.mark_unsynced(self.leader_epochs.path)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """Record that this broker leads from `leader_epoch` on, beginning at the log end."""
        self._epoch = -1  # so that the first append calls `_begin_epoch`
        self._note_epoch(self.leader_epochs.announce, leader_epoch, self.log_end_offset)

    def _on_roll(self, base_offset: int) -> None:
        self.producer_state.end_offset = base_offset
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write a snapshot of the producer state, unless it exists already or there is nothing to write. Raises
        OSError.
        """
        offset = self.producer_state.end_offset
        if self.snapshots:
            if offset <= self.snapshots[-1]:
                return
        elif offset <= self.log_start_offset:
            return
        path = self.snapshot_path(offset)
        write_snapshot(self.directory.fs, path, self.producer_state.producers.values())
        self.snapshots.append(offset)
        self.mark_unsynced(path)
        self.mark_unsynced(self.path)

    def snapshot_path(self, offset: int) -> str:
        return snapshot_path(self.path, offset)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to `offset`: all in-sync replicas have the records below it."""
        end = self.log_end_offset
        if offset > end:
            offset = end
        if offset > self.high_watermark:
            self.high_watermark = offset
        state = self.producer_state
        if state.ended:
            state.note_high_watermark(self.high_watermark)
        if state.transactions:
            self._move_stable_offset()
        else:
            self.last_stable_offset = self.high_watermark

    def begin_replication(self, high_watermark: int) -> None:
        """The partition has other replicas from now on. `high_watermark` is known to be committed.

        It is the one in replication-offset-checkpoint, or the log end if this was the only replica.
        """
        self.replicated = True
        self.high_watermark = max(self.log_start_offset, min(high_watermark, self.log_end_offset))
        self.producer_state.ended = {}
        with self.directory.offline_on_error():
            self._restore_undecided()
        self._move_stable_offset()

    def end_replication(self) -> None:
        """This is the only replica from now on, so everything in it is committed."""
        self.advance_high_watermark(self.log_end_offset)
        self.producer_state.ended = None
        self.replicated = False

    def _restore_undecided(self) -> None:
        """Find the transactions that were open at the high watermark and have ended above it. Raises OSError.

        Their markers are searched for no further: all are taken to be at the log end.
        """
        state, committed = self.producer_state, self.high_watermark
        if state.ended is None or committed >= self.log_end_offset:
            return
        at_committed = ProducerState(state.expiration_ms)
        snapshots = [offset for offset in self.snapshots if offset <= committed]
        first = min(self.segments[0].base_offset, self.log_start_offset)
        load_producers(self.directory.fs, self.path, at_committed, snapshots, self.segments, first, committed, 0)
        for first_offset, producer_id in at_committed.transactions.items():
            if first_offset not in state.transactions:
                state.ended[first_offset] = self.log_end_offset - 1
                state.transactions[first_offset] = producer_id
        state.transactions = dict(sorted(state.transactions.items()))

    def _move_stable_offset(self) -> None:
        stable = self.producer_state.first_unstable_offset
        if stable is None or stable >= self.high_watermark:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = max(stable, self.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset to `before_offset` (DeleteRecords) and return the log start offset.

        Whole segments below it are removed by the next retention run. Raises OffsetOutOfRange above the high watermark.
        """
        if before_offset > self.high_watermark or before_offset < 0:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.high_watermark)
        self.check_usable()
        with self.directory.offline_on_error():
            self.raise_log_start(before_offset)
        return self.log_start_offset

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, if it is higher. Raises OSError."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.raise_local_start(offset)
            self._move_stable_offset()
            # Remote records are found by their epochs. A crash may bring back the start that the checkpoint file has.
            self.leader_epochs.truncate_from_start(offset, write=not self.config.tiered)
            self.mark_unsynced(self.leader_epochs.path)

    def begin_as(self, original: ReplicaLog) -> None:
        """Begin where the log begins of which this is a copy: its first records are in remote storage alone.

        Without the epochs of those, no remote segment would count as one of this log. Raises OSError.
        """
        self.log_start_offset, self.local_start_offset = original.log_start_offset, original.local_start_offset
        self.copied_offset = original.copied_offset
        self.leader_epochs.replace(original.leader_epochs.entries)
        self.mark_unsynced(self.leader_epochs.path)

    def raise_local_start(self, offset: int) -> None:
        """Raise the first offset on this disk to `offset`, if it is higher."""
        self.local_start_offset = max(self.local_start_offset, offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        """Return the largest epoch not above `leader_epoch` and its end offset; (-1, -1) if unknown (KIP-279)."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    # -- truncation --------------------------------------------------------------------------------------------------

    def truncate_epochs(self, end_offset: int) -> None:
        """Remove the leader epochs that begin at `end_offset` or above. Raises OSError."""
        self._epoch = -1  # so that the next append calls `_begin_epoch`
        if self.leader_epochs.truncate_from_end(end_offset):
            self.mark_unsynced(self.leader_epochs.path)

    def restore_derived(self, now_ms: int) -> None:
        """Make everything that is derived from the records agree with a new log end. Raises OSError."""
        end_offset = self.log_end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.local_start_offset = min(self.local_start_offset, end_offset)
        self.truncate_epochs(end_offset)
        load_producers(
            self.directory.fs,
            self.path,
            self.producer_state,
            self.snapshots,
            self.segments,
            self.log_start_offset,
            end_offset,
            now_ms,
        )
        self.high_watermark = min(self.high_watermark, end_offset) if self.replicated else end_offset
        self._restore_undecided()
        self._move_stable_offset()
        self.mark_unsynced(self.path)

    def complete(self) -> None:
        """Write the snapshot and truncate indexes for a clean shutdown; a flush must follow. Raises OSError."""
        self.take_snapshot()
        self._complete_active()

    def close(self) -> None:
        """Close this log alone as a clean shutdown does, after a flush. Raises OSError."""
        self.complete()
        self.close_files()
