"""The segments of a local log as remote storage sees them: their offsets, and the files that are copied."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from remote.segment_files import SegmentFiles
from remote.store import Source
from storage.checkpoints import format_lines
from storage.producers.loading import load_producers
from storage.producers.snapshot import encode_snapshot
from storage.producers.state import ProducerState
from tiered.copying import CopyLag, LocalSegment
from tiered.lineage import Lineage
from tiered.segment import Epochs

if TYPE_CHECKING:
    from storage.fs import FileSystem
    from storage.log.partition_log import PartitionLog
    from storage.log_config import LogConfig
    from storage.segment.segment import Segment

#: remote.copy.lag.ms and .bytes: the same as local retention (KIP-1241).
_LIKE_LOCAL_RETENTION = -1


def epochs_of(log: PartitionLog) -> Epochs:
    """Return the leader epochs of a log with their first offsets."""
    return tuple((epoch, start_offset) for epoch, start_offset in log.leader_epochs.entries)


def lineage_of(log: PartitionLog) -> Lineage:
    """Return the lineage of a log as it is now."""
    return Lineage(epochs_of(log), log.log_end_offset)


def copy_lag(config: LogConfig) -> CopyLag:
    """Return how long segments may stay local alone."""
    ms, size_bytes = config.remote_copy_lag_ms, config.remote_copy_lag_bytes
    return CopyLag(
        config.local_ms if ms == _LIKE_LOCAL_RETENTION else ms,
        config.local_bytes if size_bytes == _LIKE_LOCAL_RETENTION else size_bytes,
    )


def closed_segments(log: PartitionLog, from_offset: int, most: int | None = None) -> list[tuple[LocalSegment, Segment]]:
    """Return the closed segments that end at `from_offset` or above, oldest first, or the first `most` of them.

    It may read their time indexes. Raises OSError.
    """
    segments = log.segments.from_offset(from_offset)[: None if most is None else most + 1]
    found = []
    for segment, following in pairwise(segments):
        local = LocalSegment(
            segment.base_offset, following.base_offset - 1, segment.size_bytes, segment.largest_timestamp
        )
        if local.end_offset >= from_offset:
            found.append((local, segment))
    return found


def only_local_bytes(log: PartitionLog) -> int:
    """Return the size of the segments with records that remote storage does not have."""
    return sum(segment.size_bytes for segment in log.segments.from_offset(log.copied_offset + 1))


class SegmentSources(NamedTuple):
    """The files of a closed segment, of which a thread reads the small ones."""

    fs: FileSystem
    paths: tuple[str, str, str, str]
    size_bytes: int
    #: Whether there may be a transaction index.
    may_have_aborted: bool
    leader_epochs: bytes
    #: The path of the producer snapshot, or its content.
    producer_snapshot: str | bytes

    def read(self) -> SegmentFiles:
        """Read what is in memory when it is copied. Raises OSError."""
        log, offset_index, time_index, transaction_index = self.paths
        snapshot, read_file = self.producer_snapshot, self.fs.read_file
        return SegmentFiles(
            Source(log, self.size_bytes),
            read_file(offset_index),
            read_file(time_index),
            read_file(snapshot) if isinstance(snapshot, str) else snapshot,
            self.leader_epochs,
            read_file(transaction_index) if self.may_have_aborted else None,
        )


def sources_of(log: PartitionLog, segment: Segment, end_offset: int) -> SegmentSources:
    """Return the files of a closed segment that ends before `end_offset`. Raises OSError."""
    epochs = [f"{epoch} {start}" for epoch, start in log.leader_epochs.entries if start < end_offset]
    return SegmentSources(
        log.directory.fs,
        segment.paths,
        segment.size_bytes,
        has_aborted(segment),
        format_lines(epochs),
        log.snapshot_path(end_offset) if end_offset in log.snapshots else _snapshot(log, end_offset),
    )


def has_aborted(segment: Segment) -> bool:
    """Return whether any transaction in a segment was aborted. It may read the transaction index. Raises OSError."""
    return segment.txn_index.may_have_any and bool(segment.txn_index.entries())


def _snapshot(log: PartitionLog, end_offset: int) -> bytes:
    """Return the producers' state at `end_offset`, of which there is no file: a recovery writes none in between."""
    state = ProducerState(log.producer_state.expiration_ms)
    snapshots = [offset for offset in log.snapshots if offset <= end_offset]
    # With 0 as the log start no snapshot is removed, also not one at the first offset on this disk.
    load_producers(log.directory.fs, log.path, state, snapshots, log.segments, 0, end_offset, 0)
    return encode_snapshot(state.producers.values())
