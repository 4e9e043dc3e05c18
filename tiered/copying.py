"""Which segments of a log are due for copying to remote storage (KIP-405, KIP-1241)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class LocalSegment(NamedTuple):
    """A segment on the local disk. `end_offset` is inclusive, `max_timestamp_ms` is -1 if it has no records."""

    start_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int


class CopyLag(NamedTuple):
    """How long segments may stay local alone: for `ms`, or while so many bytes follow. 0: not at all; -1: no limit.

    A segment is due as soon as one of both limits is reached.
    """

    ms: int = 0
    bytes: int = -1

    def allows(self, segment: LocalSegment, following_bytes: int, now_ms: int) -> bool:
        """Return whether the segment may be copied, with so many bytes of the log after it."""
        if not self.ms or not self.bytes:
            return True
        age_ms = now_ms - segment.max_timestamp_ms  # below 0: a time in the future never ages
        old = self.ms > 0 and (age_ms < 0 or age_ms >= self.ms)
        return old or (self.bytes > 0 and following_bytes >= self.bytes)


def due_for_copying(
    closed: Sequence[LocalSegment],
    *,
    copied_offset: int,
    log_start_offset: int,
    safe_offset: int,
    active_bytes: int,
    lag: CopyLag,
    now_ms: int,
) -> list[LocalSegment]:
    """Return the segments to copy now, oldest first.

    `closed` are all segments but the active one, ascending; `copied_offset` is the last offset in remote storage.
    `safe_offset` is what a copy may not pass: the last stable offset, and what is synced to the disk.
    """
    first = max(copied_offset + 1, log_start_offset)
    missing = [segment for segment in closed if segment.end_offset >= first]
    following = active_bytes + sum(segment.size_bytes for segment in missing)
    due = []
    for segment in missing:
        following -= segment.size_bytes
        if segment.end_offset >= safe_offset or not lag.allows(segment, following, now_ms):
            break
        due.append(segment)
    return due
