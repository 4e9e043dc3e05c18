"""Open the log in a partition's directory: with few reads after a clean shutdown, else with recovery.

The order (README, rules R1-R7): finish or undo interrupted operations (.deleted, .cleaned, .swap), then open the
segments. After an unclean shutdown check every batch from the recovery point on, cut the log at the first batch that is
damaged, and rebuild indexes, transaction index, leader epochs and producer state. After a clean shutdown take the end
from the last segment's index and the producers from the last snapshot. Small files that are missing or damaged are
rebuilt.
"""

from __future__ import annotations

from contextlib import suppress

from protocol.records.errors import CorruptBatch
from storage.checkpoints import PARTITION_METADATA, read_topic_id, write_topic_id
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.log.leader_epoch import LeaderEpochs
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import INT_MAX, LONG_MAX
from storage.producers.loading import load_producers
from storage.producers.snapshot import encode_snapshot, snapshot_path
from storage.producers.state import ProducerState
from storage.recovery.interrupted import finish_interrupted
from storage.recovery.segment import Cut, move_aside, recover_segment
from storage.recovery.splitting import SegmentOverflow, split_segment
from storage.segment.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from storage.segment.segment import Segment
from storage.segment.segment_list import Segments

_DIGITS = 20
#: The endings of file names that begin with an offset.
_OURS = frozenset((*SUFFIXES, SNAPSHOT_SUFFIX))


def load_log(directory: LogDirectory, stored: StoredLog, cuts: list[Cut] | None = None) -> PartitionLog:
    """Open the log in the directory `stored.path`. Each cut is appended to `cuts`. Raises OSError."""
    fs, path = directory.fs, stored.path
    while True:
        sizes = finish_interrupted(fs, path, _list(fs, path))
        loading = _Loading(directory, stored, sizes)
        try:
            if stored.clean or stored.recovered:
                end_offset = loading.open_clean(stored.recovery_point if stored.clean else 0)
            else:
                end_offset = loading.recover(stored.recovery_point, _gapless_from(stored))
                end_offset = loading.continue_after(stored.recovery_point, end_offset)
            break
        except SegmentOverflow as overflow:
            split_segment(fs, path, overflow.base_offset, overflow.size_bytes)
            unchecked_from = min(stored.recovery_point, overflow.base_offset)
            stored = stored._replace(clean=False, recovered=False, recovery_point=unchecked_from)
    log_start_offset = stored.log_start_offset
    if end_offset < log_start_offset:  # the records to be kept are gone: continue at the log start offset
        end_offset = loading.start_over(log_start_offset)
    recovery_point = end_offset if stored.clean else min(stored.recovery_point, end_offset)
    if not stored.config.tiered:
        log_start_offset = max(log_start_offset, loading.segments[0].base_offset)
    # Epochs of remote records stay, as in Apache Kafka, for a start with remote storage after one without it.
    loading.load_epochs(stored.log_start_offset, end_offset)
    loading.load_producers(log_start_offset, end_offset)
    loading.segments[-1].make_active(stored.config)
    log = PartitionLog(
        directory,
        path,
        stored.topic,
        stored.partition,
        stored.config,
        segments=loading.segments,
        producer_state=loading.state,
        leader_epochs=loading.epochs,
        snapshots=loading.snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        recovery_point=recovery_point,
        now_ms=stored.now_ms,
        topic_id=read_topic_id(fs, path) if PARTITION_METADATA in sizes else None,
    )
    log.take_snapshot()
    if cuts is not None:
        cuts += loading.cuts
    if stored.recovered:
        for snapshot in loading.snapshots:
            log.mark_unsynced(snapshot_path(path, snapshot))
        log.mark_unsynced(loading.epochs.path)
    if loading.changed or stored.recovered:
        log.mark_unsynced(path)
        log.mark_unsynced(directory.path)  # the directory may be new
    return log


def _gapless_from(stored: StoredLog) -> int | None:
    """Return the offset above which a gap between segments shows a loss: compaction leaves gaps, too."""
    if stored.replicated and stored.gapless_from is None and not stored.config.compacted:
        return stored.recovery_point
    return stored.gapless_from


def _list(fs: FileSystem, path: str) -> dict[str, int]:
    """Return the sizes of the files in `path` by name."""
    return {entry.name: entry.size_bytes for entry in fs.list(path) if not entry.is_directory}


def create_log(directory: LogDirectory, stored: StoredLog, topic_id: bytes, copy_path: str | None) -> PartitionLog:
    """Create the directory of a log, or rename its copy at `copy_path` to it, and open the log. Raises OSError.

    The written files are not on the disk yet: the log lists them as unsynced.
    """
    fs, path = directory.fs, stored.path
    if copy_path is not None:
        fs.rename(copy_path, path)
    fs.make_directory(path)
    write_topic_id(fs, path, topic_id)
    log = load_log(directory, stored)
    for written in (f"{path}/{PARTITION_METADATA}", directory.path):
        log.mark_unsynced(written)
    return log


class _Loading:
    """The parts of a log while it is loaded."""

    def __init__(self, directory: LogDirectory, stored: StoredLog, sizes: dict[str, int]) -> None:
        self.directory = directory
        #: The end offset at a clean shutdown; 0 if unknown.
        self.ended_at = stored.recovery_point if stored.clean else 0
        self.replicated = stored.replicated
        #: The log start of a tiered log, which may be before its first segment. Its first snapshot then has the
        #: transactions that began in remote storage.
        self.earliest_start = stored.log_start_offset if stored.config.tiered else LONG_MAX
        self.fs = directory.fs
        self.path = stored.path
        self.config = stored.config
        self.now_ms = stored.now_ms
        self.state = ProducerState(stored.producer_expiration_ms)
        self.segments = Segments()
        self.damaged: list[Segment] = []
        self.cuts: list[Cut] = []
        self.snapshots: list[int] = []
        #: Whether anything was repaired and must be forced to the disk.
        self.changed = False
        self.epochs = LeaderEpochs(self.fs, self.path, exists=LEADER_EPOCHS in sizes)
        has_records = any(size for name, size in sizes.items() if name.endswith(LOG_SUFFIX))
        # Apache Kafka leaves the file empty until the first epoch has a record
        if self.epochs.damaged and LEADER_EPOCHS in sizes and (sizes[LEADER_EPOCHS] or has_records):
            directory.remarks.append(f"{self.epochs.path}: is damaged and was rebuilt from the records")
        self._open_segments(sizes)

    def _open_segments(self, sizes: dict[str, int]) -> None:
        by_offset: dict[int, dict[str, int]] = {}
        for name, size in sizes.items():
            stem, suffix = name[:_DIGITS], name[_DIGITS:]
            if suffix not in _OURS or not stem.isdigit() or not stem.isascii():
                continue
            offset = int(stem)
            if offset >= LONG_MAX:
                continue
            if suffix == SNAPSHOT_SUFFIX:
                self.snapshots.append(offset)
            elif offset in by_offset:
                by_offset[offset][suffix] = size
            else:
                by_offset[offset] = {suffix: size}
        self.snapshots.sort()
        for offset in sorted(by_offset):
            found = by_offset[offset]
            if LOG_SUFFIX not in found:
                if TXN_INDEX_SUFFIX in found:
                    self.fs.sync_path(self.path)  # the records must not come back without their transaction index
                for suffix in found:
                    self.fs.remove(f"{self.path}/{offset:020d}{suffix}")
                continue
            segment = self._segment(offset, found)
            self.segments.add(segment)
            whole = found.get(INDEX_SUFFIX, 1) % 8 == 0 and found.get(TIME_INDEX_SUFFIX, 1) % 12 == 0
            if not whole or (TXN_INDEX_SUFFIX in found and not _readable(segment)):
                self.damaged.append(segment)
        if not self.segments:
            if self.ended_at and not self.replicated:
                self.directory.remarks.append(
                    f"{self.path}: has no segment; the log continues at offset {self.ended_at}"
                )
            self._create(0 if self.replicated else self.ended_at)

    def _segment(self, base_offset: int, sizes: dict[str, int] | None = None) -> Segment:
        return Segment(
            self.directory.files,
            self.path,
            base_offset,
            self.config,
            created_ms=self.now_ms,
            roll_jitter_ms=self.directory.roll_jitter_ms(self.config),
            sizes=sizes,
        )

    def _create(self, base_offset: int) -> None:
        segment = Segment.create(
            self.directory.files, self.path, base_offset, self.config, now_ms=self.now_ms, roll_jitter_ms=0
        )
        self.segments.add(segment)
        self.changed = True

    def open_clean(self, expected: int) -> int:
        """Return the end offset; repair only files that are missing or have an odd size.

        `expected` is the end offset at the shutdown, 0 if unknown. If the log ends elsewhere, its last segment is
        checked. The offsets of what is cut off were assigned already, so the log continues after them. But if
        everything is right up to the shutdown's snapshot, the checkpoint is damaged and not the log.
        """
        self._repair(self.damaged)
        last = self.segments[-1]
        stopped_at = self.snapshots[-1] if self.snapshots else 0
        try:
            end_offset, start = last.next_offset(), last.base_offset
            if end_offset == expected or not expected:
                return end_offset
        except CorruptBatch:  # the shutdown was not clean after all
            start = 0
        end_offset = self.recover(start)
        if end_offset == stopped_at and not self.cuts:
            return end_offset
        return self.continue_after(expected, end_offset)

    def continue_after(self, recovery_point: int, end_offset: int) -> int:
        """Return the offset at which a log that was recovered up to `end_offset` continues.

        It is not below the recovery point, because offsets up to there were assigned. Unless a clean shutdown wrote it,
        the recovery point may be that of an earlier log of the same name; then it counts only if something was cut off.
        A replica continues where its records end: it must not claim offsets whose records only others have.
        """
        if self.replicated:
            return end_offset
        is_its_own = bool(self.ended_at or self.cuts)
        if not is_its_own or not end_offset < recovery_point <= self.segments[-1].base_offset + INT_MAX:
            return end_offset
        if not self.cuts:  # cuts are reported elsewhere
            missing = f"the records end at offset {end_offset}, but the log had ended at {recovery_point}"
            self.directory.remarks.append(f"{self.path}: {missing}: the records in between are lost")
        self._create(recovery_point)
        return recovery_point

    def _repair(self, damaged: list[Segment]) -> None:
        """Rebuild the indexes of segments whose records are on the disk."""
        for segment in damaged:
            self.directory.remarks.append(
                f"{segment.log.path}: an index is missing or damaged; all indexes of the segment were rebuilt"
            )
            self.changed = True
            if _readable(segment):
                segment.rebuild_indexes()
            else:
                self._recover_segment(segment, self._state_at(segment.base_offset))

    def _state_at(self, offset: int) -> ProducerState:
        """Return the state of the producers when the log ended at `offset`."""
        state = ProducerState(self.state.expiration_ms)
        earlier = [snapshot for snapshot in self.snapshots if snapshot <= offset]
        first = min(self.segments[0].base_offset, self.earliest_start)
        load_producers(self.fs, self.path, state, earlier, self.segments, first, offset, self.now_ms)
        return state

    def recover(self, recovery_point: int, gapless_from: int | None = None) -> int:
        """Check the batches from the recovery point's segment on, cut at the first bad one; return the end offset."""
        if self.segments[-1].is_active:
            return self.segments[-1].base_offset  # the segment was just created and has no batches
        self.changed = True
        # If the previous flush reached the end of a preallocated segment, the part that the roll truncated may be back.
        first_unsafe = recovery_point - 1 if self.config.preallocate else recovery_point
        unflushed = self.segments.from_offset(first_unsafe)
        first = unflushed[0].base_offset
        self._repair([segment for segment in self.damaged if segment.base_offset < first])
        left = {snapshot for snapshot in self.snapshots if snapshot > first}
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot <= first]
        self.state = self._state_at(first)
        if first == self.segments[0].base_offset:
            self.epochs.damaged = False  # the checked batches have all epochs
        for index, segment in enumerate(unflushed):
            following = unflushed[index + 1 :]
            cut = self._recover_segment(segment, self.state, following[0].base_offset if following else LONG_MAX)
            end = max(self.state.end_offset, segment.base_offset)
            gap = gapless_from is not None and bool(following) and following[0].base_offset > max(end, gapless_from)
            if cut or gap:
                for later in following:
                    self.segments.remove(later)
                    reason = f"offsets from {end} on are missing" if gap else "an earlier segment was cut"
                    self.cuts.append(move_aside(self.fs, later, reason))
            self._take_snapshot(left)
            if segment is self.segments[-1]:
                break
        for snapshot in left:
            self.fs.remove(snapshot_path(self.path, snapshot))
        return self.segments[-1].next_offset()

    def _recover_segment(self, segment: Segment, state: ProducerState, limit: int = LONG_MAX) -> bool:
        """Check a segment, which must end at `limit`, and rebuild its derived files. Return whether anything was cut
        off.
        """
        cut = recover_segment(self.fs, segment, state, self.epochs, limit)
        if cut is not None:
            self.cuts.append(cut)
        return cut is not None

    def _take_snapshot(self, left: set[int]) -> None:
        """Write a snapshot of the producers, unless the file in `left` has the same content. Remove its offset from
        `left`.
        """
        offset = self.state.end_offset
        if offset > (self.snapshots[-1] if self.snapshots else self.segments[0].base_offset):
            path, data = snapshot_path(self.path, offset), encode_snapshot(self.state.producers.values())
            if offset not in left or self.fs.read_file(path) != data:
                self.fs.write_file(path, data)
            left.discard(offset)
            self.snapshots.append(offset)

    def start_over(self, offset: int) -> int:
        """Replace the log with an empty one that begins at `offset`."""
        for segment in self.segments:
            self.segments.remove(segment)
            self.cuts.append(move_aside(self.fs, segment, f"it ends below the log start offset {offset}"))
        self.epochs.clear()
        for snapshot in self.snapshots:
            self.fs.remove(snapshot_path(self.path, snapshot))
        self.snapshots.clear()
        self.state.clear(offset)
        self._create(offset)
        return offset

    def load_epochs(self, log_start_offset: int, end_offset: int) -> None:
        """Make the epochs agree with the log; rebuild them from the batches if their file is missing or damaged."""
        if self.epochs.damaged and end_offset > self.segments[0].base_offset:
            latest = -1
            for segment in self.segments:
                with suppress(CorruptBatch):  # no reader can reach the batches after it
                    for entry in segment.scan(0):
                        if entry.header is not None and entry.header.leader_epoch > latest:
                            latest = entry.header.leader_epoch
                            self.epochs.assign(latest, entry.base_offset)
            self.epochs.write()
            self.changed = True
        self.epochs.truncate_from_end(end_offset + 1)
        self.epochs.truncate_from_start(log_start_offset)

    def load_producers(self, log_start_offset: int, end_offset: int) -> None:
        """Load the producer state at the end of the log."""
        self._drop_stray_snapshots()
        load_producers(
            self.fs, self.path, self.state, self.snapshots, self.segments, log_start_offset, end_offset, self.now_ms
        )

    def _drop_stray_snapshots(self) -> None:
        """Remove all snapshots except those at a segment's base offset and one after the last segment's base offset."""
        bases = set(self.segments.base_offsets)
        last = self.segments[-1].base_offset
        strays = [offset for offset in self.snapshots if offset not in bases]
        if strays and strays[-1] > last:
            strays.pop()
        for offset in strays:
            self.fs.remove(snapshot_path(self.path, offset))
            self.snapshots.remove(offset)


def _readable(segment: Segment) -> bool:
    try:
        segment.txn_index.entries()
    except CorruptFile:
        return False
    return True
