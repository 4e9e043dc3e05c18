"""Retention: find and remove the expired segments of a log, by log start offset, size and time.

Size and time apply with cleanup.policy delete, and the local limits of a tiered log also without any policy. Only whole
segments are removed, oldest first, and never beyond the high watermark. Time is the segment's largest timestamp, not
the file's. By size a segment is removed only if the rest still has at least retention.bytes. If all segments have
expired, a new empty one is created first, so that offsets continue.

A tiered log (KIP-405) has local limits instead, local.retention.ms and local.retention.bytes, as soon as remote storage
has a segment. The log start offset stays; remote retention moves it (tiered/expiry.py). With remote.log.copy.disable
the limits are those of other logs, and the log start offset moves. If the active segment has
expired, a new one is begun, so that the old one is copied.

Some readers do not commit their offsets here (see `unread_from`). For them, segments that expired by time or size are
held up to retention.hold.max.bytes; beyond that the oldest are removed. Records below the log start offset are not
held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from storage.log.partition_log import PartitionLog
from storage.segment.segment import Segment


def remove_expired(log: PartitionLog, now_ms: int, unread_from: Callable[[PartitionLog], int | None]) -> list[str]:
    """Take the expired segments that no reader holds out of a log. Return the paths of their files, which still exist.

    Nothing is removed while a cleaner uses the log. A directory that fails goes offline. `unread_from`: see LogManager.
    """
    if not log.directory.is_online or log.closed or (log.cleaning is not None and not log.copied):
        return []
    try:
        expired = expired_segments(log, now_ms)
        if log.config.tiered:
            expired = copied_segments(log, expired, now_ms)
        if expired and log.config.retention_hold_max_bytes and (unread := unread_from(log)) is not None:
            expired = released_segments(log, expired, unread)
        return remove_segments(log, expired, now_ms)
    except OSError as error:
        log.directory.fail(error)
        return []


def expired_segments(log: PartitionLog, now_ms: int, *, margin_bytes: int = 0) -> list[Segment]:
    """Return the segments that have expired, or would with `margin_bytes` more records, oldest first.

    They may include segments of a tiered log that are not copied yet. It may read the indexes. Raises OSError.
    """
    config = log.config
    segments = log.segments[:]
    if len(segments) == 1 and not segments[0].size_bytes:
        return []  # as many logs of a large broker
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    count = sum(1 for end in ends[:-1] if end <= log.local_start_offset)
    if config.expires_locally:
        if config.local_bytes >= 0:
            excess = log.size_bytes - sum(segment.size_bytes for segment in segments[:count]) - config.local_bytes
            excess += margin_bytes
            for segment in _candidates(log, segments, ends, count):
                excess -= segment.size_bytes
                if excess < 0:
                    break
                count += 1
        if config.local_ms >= 0:
            for segment in _candidates(log, segments, ends, count):
                if now_ms - segment.largest_timestamp <= config.local_ms:
                    break
                count += 1
    return segments[:count]


def copied_segments(log: PartitionLog, expired: list[Segment], now_ms: int) -> list[Segment]:
    """Return those of the `expired` segments of a tiered log that may be removed, oldest first.

    Remote storage has them, or they are before the log's start, or nothing is copied any more. If the active segment is
    among the expired ones, begin a new one. Raises OSError.
    """
    if expired and expired[-1] is log.active_segment and log.active_segment.size_bytes:
        log.roll(log.log_end_offset, now_ms)
    kept_from = log.local_start_offset if log.config.copied else log.log_end_offset
    removable = max(kept_from, log.copied_offset + 1)
    return [segment for segment in expired if _end_of(log, segment) <= removable]


def _end_of(log: PartitionLog, segment: Segment) -> int:
    following = log.segments.after(segment)
    return log.log_end_offset if following is None else following.base_offset


def released_segments(log: PartitionLog, expired: list[Segment], unread_from: int) -> list[Segment]:
    """Return the `expired` segments to remove, oldest first, if records from offset `unread_from` on are held."""
    unread_from = max(unread_from, log.log_start_offset)
    held_bytes = 0
    for count in range(len(expired), 0, -1):
        if _end_of(log, expired[count - 1]) <= unread_from:
            return expired[:count]
        held_bytes += expired[count - 1].size_bytes
        if held_bytes > log.config.retention_hold_max_bytes:
            return expired[:count]
    return []


def _candidates(log: PartitionLog, segments: list[Segment], ends: list[int], start: int) -> Iterator[Segment]:
    """Yield segments from `start` on that may be removed: fully committed, and not the empty active segment."""
    for segment, end in list(zip(segments, ends, strict=True))[start:]:
        if end > log.high_watermark or (segment is segments[-1] and not segment.size_bytes):
            return
        yield segment


def remove_segments(log: PartitionLog, expired: list[Segment], now_ms: int) -> list[str]:
    """Take expired segments out of the log and raise its start; the local one, if they are copied to remote storage.

    Returns the paths of the files to remove. Raises OSError if a new segment cannot be created.
    """
    if not expired:
        return []
    if len(expired) == len(log.segments):
        log.roll(log.log_end_offset, now_ms)
    following = log.segments.after(expired[-1])
    assert following is not None, "a new segment was begun"
    if log.config.copied:
        log.raise_local_start(following.base_offset)
    else:
        log.raise_log_start(following.base_offset)
    log.drop_segments(expired)
    paths: list[str] = []
    for segment in expired:
        paths += segment.paths
        if segment.base_offset in log.snapshots:
            log.snapshots.remove(segment.base_offset)
            paths.append(log.snapshot_path(segment.base_offset))
    return paths
