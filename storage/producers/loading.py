"""Load the producer state of a log from the last valid snapshot and the batches after it."""

from __future__ import annotations

from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.producers.markers import note_entry
from storage.producers.snapshot import read_snapshot, snapshot_path
from storage.producers.state import BATCHES_KEPT, BatchMetadata, ProducerEntry, ProducerState
from storage.segment.segment import Segment
from storage.segment.segment_list import Segments

#: How far before a producer's last batch its earlier batches are searched.
_RECALL_BYTES = 1 << 20


def load_producers(
    fs: FileSystem,
    directory: str,
    state: ProducerState,
    snapshots: list[int],
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Set `state` to the state of the producers when the log ended at `end_offset`. Raises OSError.

    Snapshots that are damaged, above `end_offset` or not above `log_start_offset` are removed, also from `snapshots`. A
    snapshot at the log start is used before it is removed.
    """
    for offset in list(snapshots):
        if not log_start_offset <= offset <= end_offset:
            _remove(fs, directory, snapshots, offset)
    state.clear(log_start_offset)
    while snapshots:
        try:
            state.load(read_snapshot(fs, snapshot_path(directory, snapshots[-1])), snapshots[-1], now_ms)
            break
        except (CorruptFile, FileNotFoundError):
            _remove(fs, directory, snapshots, snapshots[-1])
    if state.end_offset < end_offset:
        for segment in segments.from_offset(state.end_offset):
            if segment.base_offset >= end_offset:
                break  # not checked yet after a crash
            _note_segment(fs, state, segment, end_offset)
        state.end_offset = end_offset
    if snapshots and snapshots[0] == log_start_offset:
        _remove(fs, directory, snapshots, log_start_offset)


def _remove(fs: FileSystem, directory: str, snapshots: list[int], offset: int) -> None:
    fs.remove(snapshot_path(directory, offset))
    snapshots.remove(offset)


def _note_segment(fs: FileSystem, state: ProducerState, segment: Segment, end_offset: int) -> None:
    first = segment.find(state.end_offset)
    if first is None:
        return
    for entry in segment.scan(first.position):
        if entry.base_offset >= end_offset:
            return
        note_entry(fs, segment.log.open().handle, state, None, entry)
        state.end_offset = entry.last_offset + 1


def recall_batches(segments: Segments, entry: ProducerEntry) -> None:
    """Find the last batches of a producer in the log, because a snapshot has only the last one. Raises OSError.

    After a restart a client may repeat up to five batches, of which Apache Kafka knows only the last. A search in the
    log, once per producer and only if a batch seems out of order, costs less than larger snapshots.
    """
    entry.complete = True
    found: list[BatchMetadata] = []
    wanted = _RECALL_BYTES
    for segment in reversed(segments[: segments.floor(entry.last_offset) + 1]):
        last = segment.find(entry.last_offset)
        end = segment.size_bytes if last is None else last.position + last.size_bytes
        here = []
        for scanned in segment.scan(segment.offset_index.before_position(max(0, end - wanted))):
            header = scanned.header
            if header is None or header.producer_id != entry.producer_id or header.is_control:
                continue
            if header.producer_epoch == entry.producer_epoch and scanned.last_offset <= entry.last_offset:
                here.append(
                    BatchMetadata(
                        header.last_sequence, scanned.last_offset, header.last_offset_delta, header.max_timestamp
                    )
                )
        found = here + found
        wanted -= end
        if wanted <= 0 or len(found) >= BATCHES_KEPT:
            break
    if found and found[-1] == entry.batches[-1]:
        entry.batches = found[-BATCHES_KEPT:]
