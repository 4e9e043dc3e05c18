"""Truncation: remove the end of a replica's log, which its leader does not have (KIP-101, KIP-279).

Afterwards the log is as if it had never had more: segments, indexes, epochs, producers and offsets agree (rule T1,
README). The steps are in an order that leaves a log to recover whenever the process is killed:

1. Lower the recovery point in the checkpoint file, and force it to the disk. Otherwise recovery would not check the
   records that replace the removed ones.
2. Rename the files of whole segments, the last segment first, so that no gap is left.
3. Truncate the segment that contains the offset, then everything that is derived from the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS
from storage.errors import CorruptFile, LogOffline
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import EpochEntry
from storage.log.offset_checkpoints import OffsetCheckpoints
from storage.log.partition_log import PartitionLog
from storage.log.removals import Removals
from storage.log.tasks import DELETED_SUFFIX
from storage.producers.loading import load_producers
from storage.producers.snapshot import decode_snapshot
from storage.segment.segment import Segment


def truncate_logs(
    offsets: Mapping[PartitionLog, int], checkpoints: OffsetCheckpoints, removals: Removals, now_ms: int
) -> None:
    """Truncate each log to its offset. A directory that fails goes offline, with its logs; the others are truncated.

    It waits for the disk if an offset is below the recovery point.
    """
    _lower_recovery_points(offsets, checkpoints)
    for log, offset in offsets.items():
        with suppress(LogOffline):
            removals.of(log, now_ms)(truncate_log(log, offset, now_ms))


def start_over(log: PartitionLog, offset: int, checkpoints: OffsetCheckpoints, removals: Removals, now_ms: int) -> None:
    """Remove all records of a log, and continue at `offset`: its leader has nothing that the log could continue.

    Raises LogOffline.
    """
    _lower_recovery_points({log: min(offset, log.log_start_offset)}, checkpoints)
    removals.of(log, now_ms)(empty_log(log, offset, now_ms))


def start_behind_remote(
    log: PartitionLog,
    offset: int,
    log_start_offset: int,
    epochs: Sequence[EpochEntry],
    snapshot: bytes,
    checkpoints: OffsetCheckpoints,
    removals: Removals,
    now_ms: int,
) -> None:
    """Remove all records of a tiered log, and continue at `offset`: remote storage alone has the records before that.

    `epochs` are those of the records below `offset`, and `snapshot` is the file of the producers' state there. Raises
    LogOffline, and CorruptFile for another snapshot; then nothing is changed.
    """
    decode_snapshot(snapshot, log.snapshot_path(offset))
    start_over(log, offset, checkpoints, removals, now_ms)
    log.log_start_offset = log_start_offset
    with log.directory.offline_on_error():
        log.leader_epochs.replace(epochs)
        log.leader_epochs.truncate_from_start(log_start_offset)
        log.directory.fs.write_file(log.snapshot_path(offset), snapshot)
        log.snapshots.append(offset)
        fs, state = log.directory.fs, log.producer_state
        # Without these epochs the remote segments would not count as those of this log. No record here has them.
        for path in (log.leader_epochs.path, log.snapshot_path(offset), log.path):
            fs.sync_path(path)
        load_producers(fs, log.path, state, log.snapshots, log.segments, log_start_offset, offset, now_ms)
    log.advance_high_watermark(offset)  # only committed records are copied
    # The files of the log do not show its start: after a crash it would be where the disk begins. A leader deletes
    # the remote segments before its log start.
    checkpoints.replace(log.directory, LOG_START_OFFSETS)


def _lower_recovery_points(offsets: Mapping[PartitionLog, int], checkpoints: OffsetCheckpoints) -> None:
    lowered: dict[LogDirectory, None] = {}
    for log, offset in offsets.items():
        if offset < log.recovery_point:
            log.recovery_point = offset
            lowered[log.directory] = None
    for directory in lowered:
        with suppress(LogOffline):
            checkpoints.replace(directory, RECOVERY_POINTS)


def truncate_log(log: PartitionLog, offset: int, now_ms: int) -> list[str]:
    """Remove the records from `offset` on. Return the paths of the files to remove, which have their final names.

    A batch that contains the offset is removed as a whole. A log that ends below the offset loses only the epochs that
    begin above it, which the leader may have given to other records (KAFKA-10706). A log whose first segment begins
    above the offset continues there, empty. Raises LogOffline.
    """
    log.check_usable()
    if offset < log.segments[0].base_offset:
        return empty_log(log, offset, now_ms)
    with log.directory.offline_on_error():
        if offset >= log.log_end_offset:
            log.truncate_epochs(offset)
            return []
    _stop_cleaning(log)
    index = log.segments.floor(offset)
    kept, later = log.segments[index], log.segments[index + 1 :]
    size_bytes = kept.size_bytes
    try:
        paths = _set_aside(log, later)
        end_offset = kept.truncate_to(offset, log.config, now_ms)
        log.continue_from(kept, end_offset, size_bytes - kept.size_bytes)
        log.restore_derived(now_ms)
    except (OSError, CorruptFile) as error:
        raise _half_done(log, error) from error
    return paths


def empty_log(log: PartitionLog, offset: int, now_ms: int) -> list[str]:
    """Remove all records; the log continues at `offset`. Return the paths as `truncate_log` does. Raises LogOffline."""
    log.check_usable()
    _stop_cleaning(log)
    try:
        paths = _set_aside(log, log.segments[:])
        active = Segment.create(
            log.directory.files,
            log.path,
            offset,
            log.config,
            now_ms=now_ms,
            roll_jitter_ms=log.directory.roll_jitter_ms(log.config),
        )
        log.segments.add(active)
        log.continue_from(active, offset, 0)
        log.log_start_offset = log.local_start_offset = offset
        log.leader_epochs.clear()
        log.mark_unsynced(log.leader_epochs.path)
        log.restore_derived(now_ms)
    except OSError as error:
        raise _half_done(log, error) from error
    return paths


def _stop_cleaning(log: PartitionLog) -> None:
    if log.cleaning is not None:
        log.cleaning()


def _set_aside(log: PartitionLog, segments: Sequence[Segment]) -> list[str]:
    """Take segments out of the log and give their files the names of removed files. Raises OSError.

    A transaction index is renamed after its records: without it, readers would get aborted records.
    """
    fs = log.directory.fs
    renamed: list[str] = []
    log.drop_segments(list(segments))
    for segment in reversed(segments):
        for path in segment.paths:
            with suppress(FileNotFoundError):
                fs.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
    return renamed


def _half_done(log: PartitionLog, error: OSError | CorruptFile) -> LogOffline:
    """Take the directory offline: only a start can repair the log."""
    return log.directory.fail(error if isinstance(error, OSError) else str(error), half_done=True)
