"""From a partition's directory to its log: after a clean stop with as few reads as can be, after another with repairs.

The order (README, rules R1-R7): finish or undo what was interrupted (.deleted, .cleaned, .swap); open the segments;
after an unclean stop check every batch from the recovery point on, cut at the first that is not whole and right, and
make indexes, transaction index, leader epochs and producer state anew on the way; else take the end from the last
segment's index and the producers from the last snapshot. Small files that are missing or damaged are made anew.
"""

from __future__ import annotations

from protocol.records.errors import CorruptBatch
from storage.batch_scan import scan_valid
from storage.checkpoints import PARTITION_METADATA, read_topic_id
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.leader_epoch import LeaderEpochs
from storage.log_config import INT_MAX, LogConfig
from storage.log_directory import LogDirectory
from storage.markers import note_batch
from storage.partition_log import PartitionLog
from storage.producer_loading import load_producers, snapshot_path
from storage.producer_snapshot import write_snapshot
from storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerState
from storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from storage.segments import Segments
from storage.tasks import DELETED_SUFFIX

CLEANED_SUFFIX, SWAP_SUFFIX = ".cleaned", ".swap"
#: Snapshots of the metadata log that are to be removed: its owner does that.
_FOREIGN_DELETED_SUFFIX = ".checkpoint.deleted"

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def load_log(
    directory: LogDirectory,
    path: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS,
) -> PartitionLog:
    """The log in `path`, which is made where it is missing. OSError.

    `clean`: the broker that had it last stopped in order. Otherwise what lies behind `recovery_point` is checked.
    """
    fs = directory.fs
    sizes = finish_interrupted(fs, path, _list(fs, path))
    loading = _Loading(directory, path, config, sizes, now_ms, producer_expiration_ms)
    end_offset = loading.open_clean() if clean else loading.recover(recovery_point)
    if end_offset < log_start_offset:  # what was to be kept is gone: go on where the log should begin
        end_offset = loading.start_over(log_start_offset)
    if clean:
        recovery_point = end_offset
    log_start_offset = max(log_start_offset, loading.segments[0].base_offset)
    loading.load_epochs(log_start_offset, end_offset)
    loading.drop_stray_snapshots()
    load_producers(fs, path, loading.state, loading.snapshots, loading.segments, log_start_offset, end_offset, now_ms)
    loading.segments[-1].make_active(config)
    log = PartitionLog(
        directory,
        path,
        topic,
        partition,
        config,
        segments=loading.segments,
        producer_state=loading.state,
        leader_epochs=loading.epochs,
        snapshots=loading.snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        recovery_point=min(recovery_point, end_offset),
        now_ms=now_ms,
        topic_id=read_topic_id(fs, path) if PARTITION_METADATA in sizes else None,
    )
    log.take_snapshot()
    if loading.changed:
        log.mark_unsynced(path)
    return log


def _list(fs: FileSystem, path: str) -> dict[str, int]:
    """Sizes of the files in `path` by name."""
    try:
        entries = fs.list(path)
    except FileNotFoundError:
        fs.make_directory(path)
        return {}
    return {entry.name: entry.size_bytes for entry in entries if not entry.is_directory}


def _offset_of(name: str) -> int | None:
    """The offset that a file is named after."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else None


def finish_interrupted(fs: FileSystem, path: str, sizes: dict[str, int]) -> dict[str, int]:
    """Remove what was on its way out, finish what a cleaner was swapping in; the files and sizes that remain.

    A .swap file is complete: the segments that it replaces go, and it takes its place. It is dropped where a .cleaned
    file with as low an offset says that it was part of more, which was not ready.
    """
    kept = dict(sizes)
    cleaned = [_offset_of(name) for name in kept if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min((offset for offset in cleaned if offset is not None), default=INT_MAX << 32)

    def is_leftover(name: str) -> bool:
        if name.endswith(SWAP_SUFFIX):
            return (_offset_of(name) or 0) >= first_cleaned
        return name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")) and not name.endswith(_FOREIGN_DELETED_SUFFIX)

    for name in [name for name in kept if is_leftover(name)]:
        fs.remove(f"{path}/{name}")
        del kept[name]
    swaps = [name for name in kept if name.endswith(SWAP_SUFFIX)]
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        low = min(_offset_of(name) or 0 for name in logs)
        high = max(_end_of(fs, f"{path}/{name}", _offset_of(name) or 0, kept[name]) for name in logs)
        for name in list(kept):
            offset = _offset_of(name)
            if offset is not None and low <= offset < high and not name.endswith(SWAP_SUFFIX):
                fs.remove(f"{path}/{name}")
                del kept[name]
    for name in swaps:
        final = name.removesuffix(SWAP_SUFFIX)
        fs.rename(f"{path}/{name}", f"{path}/{final}")
        kept[final] = kept.pop(name)
    return kept


def _end_of(fs: FileSystem, path: str, base_offset: int, size_bytes: int) -> int:
    """The offset after the last whole batch of a segment file that has no index."""
    handle = fs.open_read(path)
    end = base_offset
    try:
        for entry, _ in scan_valid(fs, handle, 0, size_bytes):
            end = entry.last_offset + 1
    except CorruptBatch:
        pass
    finally:
        fs.close(handle)
    return end


class _Loading:
    """The parts of a log while it is put together."""

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        config: LogConfig,
        sizes: dict[str, int],
        now_ms: int,
        producer_expiration_ms: int,
    ) -> None:
        self.directory = directory
        self.fs = directory.fs
        self.path = path
        self.config = config
        self.now_ms = now_ms
        self.state = ProducerState(producer_expiration_ms)
        self.segments = Segments()
        self.damaged: list[Segment] = []
        self.snapshots: list[int] = []
        #: Whether anything was repaired, and has to be forced to the disk.
        self.changed = False
        self.epochs = LeaderEpochs(self.fs, path, exists=LEADER_EPOCHS in sizes)
        self._open_segments(sizes)

    def _open_segments(self, sizes: dict[str, int]) -> None:
        by_offset: dict[int, dict[str, int]] = {}
        for name, size in sizes.items():
            offset = _offset_of(name)
            if offset is None:
                continue
            suffix = name[name.index(".") :]
            if suffix == SNAPSHOT_SUFFIX:
                self.snapshots.append(offset)
            elif suffix == LOG_SUFFIX or suffix in _INDEX_SUFFIXES:
                by_offset.setdefault(offset, {})[suffix] = size
        self.snapshots.sort()
        for offset, found in sorted(by_offset.items()):
            if LOG_SUFFIX not in found:
                for suffix in found:
                    self.fs.remove(f"{self.path}/{offset:020d}{suffix}")
                continue
            segment = self._segment(offset, found)
            self.segments.add(segment)
            whole = found.get(INDEX_SUFFIX, 1) % 8 == 0 and found.get(TIME_INDEX_SUFFIX, 1) % 12 == 0
            if not whole or (TXN_INDEX_SUFFIX in found and not _readable(segment)):
                self.damaged.append(segment)
        if not self.segments:
            self._create(0)

    def _segment(self, base_offset: int, sizes: dict[str, int] | None = None) -> Segment:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return Segment(
            self.directory.files,
            self.path,
            base_offset,
            self.config,
            created_ms=self.now_ms,
            roll_jitter_ms=self.directory.jitter(jitter_ms) if jitter_ms else 0,
            sizes=sizes,
        )

    def _create(self, base_offset: int) -> None:
        segment = Segment.create(
            self.directory.files, self.path, base_offset, self.config, now_ms=self.now_ms, roll_jitter_ms=0
        )
        self.segments.add(segment)
        self.changed = True

    def open_clean(self) -> int:
        """The end offset, with repairs only where a file is missing or of an odd size."""
        self._repair(self.damaged)
        try:
            return self.segments[-1].next_offset()
        except CorruptBatch:  # the stop was not as clean as it seemed
            return self.recover(0)

    def _repair(self, damaged: list[Segment]) -> None:
        """Make the indexes of segments anew whose records are on the disk for sure."""
        for segment in damaged:
            self.changed = True
            if _readable(segment):
                segment.rebuild_indexes()
            else:
                self._recover_segment(segment, self._state_at(segment.base_offset))

    def _state_at(self, offset: int) -> ProducerState:
        """The producers as they were when the log ended at `offset`."""
        state = ProducerState(self.state.expiration_ms)
        earlier = [snapshot for snapshot in self.snapshots if snapshot <= offset]
        first = self.segments[0].base_offset
        load_producers(self.fs, self.path, state, earlier, self.segments, first, offset, self.now_ms)
        return state

    def recover(self, recovery_point: int) -> int:
        """Check all batches from the recovery point's segment on, cut at the first that is wrong; the end offset."""
        if self.segments[-1].is_active:
            return self.segments[-1].base_offset  # it was made just now: there is nothing to check
        self.changed = True
        unflushed = self.segments.from_offset(recovery_point)
        first = unflushed[0].base_offset
        self._repair([segment for segment in self.damaged if segment.base_offset < first])
        for snapshot in [snapshot for snapshot in self.snapshots if snapshot > first]:
            self.fs.remove(snapshot_path(self.path, snapshot))
            self.snapshots.remove(snapshot)
        self.state = self._state_at(first)
        if first == self.segments[0].base_offset:
            self.epochs.damaged = False  # all of them are found on the way
        for place, segment in enumerate(unflushed):
            if self._recover_segment(segment, self.state):
                for later in unflushed[place + 1 :]:
                    self.segments.remove(later)
                    later.remove_files()
            self._take_snapshot()
            if segment is self.segments[-1]:
                break
        return self.segments[-1].next_offset()

    def _recover_segment(self, segment: Segment, state: ProducerState) -> int:
        """Keep the whole and right batches, make all that is derived from them anew; the bytes that were cut off.

        `state` is that at the segment's base offset, and becomes that at its end.
        """
        segment.begin_rebuild()
        segment.txn_index.reset()
        valid_bytes, next_offset, latest_epoch = 0, segment.base_offset, self.epochs.latest
        try:
            for entry, batch in scan_valid(self.fs, segment.log.open().handle, 0, segment.size_bytes):
                last_offset, header = entry.last_offset, entry.header
                # The checksum does not cover the base offset.
                if not next_offset <= entry.base_offset <= last_offset <= segment.base_offset + INT_MAX:
                    break
                segment.index_entry(entry)
                if header is not None:
                    if header.leader_epoch >= 0 and (latest_epoch is None or header.leader_epoch > latest_epoch):
                        latest_epoch = header.leader_epoch
                        self.epochs.assign(latest_epoch, entry.base_offset)
                    note_batch(state, segment.txn_index, batch, header, last_offset)
                next_offset = state.end_offset = last_offset + 1
                valid_bytes = entry.position + entry.size_bytes
        except CorruptBatch:
            pass
        cut = segment.size_bytes - valid_bytes
        segment.end_rebuild(valid_bytes)
        return cut

    def _take_snapshot(self) -> None:
        offset = self.state.end_offset
        if offset > (self.snapshots[-1] if self.snapshots else self.segments[0].base_offset):
            write_snapshot(self.fs, snapshot_path(self.path, offset), self.state.producers.values())
            self.snapshots.append(offset)

    def load_producers(self, log_start_offset: int, end_offset: int) -> None:
        """From the last snapshot, unless the recovery that was has them all."""
        if self.state.end_offset != end_offset or not self.changed:
            load_producers(
                self.fs,
                self.path,
                self.state,
                self.snapshots,
                self.segments,
                log_start_offset,
                end_offset,
                self.now_ms,
            )

    def start_over(self, offset: int) -> int:
        """An empty log that begins at `offset`."""
        for segment in self.segments:
            self.segments.remove(segment)
            segment.remove_files()
        self.epochs.clear()
        for snapshot in self.snapshots:
            self.fs.remove(snapshot_path(self.path, snapshot))
        self.snapshots.clear()
        self.state.clear(offset)
        self._create(offset)
        return offset

    def load_epochs(self, log_start_offset: int, end_offset: int) -> None:
        """Bring the epochs in line with the log; find them again where their file is missing or damaged."""
        if self.epochs.damaged and end_offset > self.segments[0].base_offset:
            latest = -1
            for segment in self.segments:
                for entry in segment.scan(0):
                    if entry.header is not None and entry.header.leader_epoch > latest:
                        latest = entry.header.leader_epoch
                        self.epochs.assign(latest, entry.base_offset)
            self.epochs.write()
            self.changed = True
        self.epochs.truncate_from_end(end_offset + 1)
        self.epochs.truncate_from_start(log_start_offset)

    def drop_stray_snapshots(self) -> None:
        """Keep the snapshots at segments' base offsets, and the last one if it is beyond them all."""
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
