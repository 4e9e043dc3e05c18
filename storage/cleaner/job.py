"""One round of cleaning, as it goes to a worker and comes back: plain values, which pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from storage.cleaner.output import CleanedSegment
from storage.log_config import INT_MAX, LogConfig


class SourceSegment(msgspec.Struct, frozen=True):
    """A segment to be cleaned: its base offset, and the sizes of its records and indexes."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


class LastRecord(msgspec.Struct, frozen=True):
    """A producer's epoch, and the offset of its last data record; None when it has markers only."""

    producer_epoch: int
    offset: int | None


class Resources(msgspec.Struct, frozen=True):
    """What one cleaner may use: its share of log.cleaner.dedupe.buffer.size and so on."""

    memory_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


class CleanJob(msgspec.Struct, frozen=True):
    """One round of one log.

    `segments`: all that may be cleaned, from the oldest on, up to `end_offset`; what lies below `first_dirty_offset`
    was cleaned before. `transaction_indexes`: of all segments that have any, also of later ones. `producers`: by id.
    """

    directory: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    end_offset: int
    transaction_indexes: tuple[str, ...]
    producers: Mapping[int, LastRecord]
    config: LogConfig
    now_ms: int
    resources: Resources


class CleanResult(msgspec.Struct, frozen=True):
    """What came of it: finished segments in order, and where the next round's dirty part begins.

    `read_bytes` and `kept_bytes` are of the records; `keys` how many there were in the dirty part.
    """

    segments: tuple[CleanedSegment, ...]
    end_offset: int
    read_bytes: int
    kept_bytes: int
    read_records: int
    kept_records: int
    keys: int


def group_segments(segments: Sequence[SourceSegment], config: LogConfig, end_offset: int) -> list[list[SourceSegment]]:
    """Which segments become one: as many in a row as are no more than segment.bytes and the indexes' size together."""
    groups: list[list[SourceSegment]] = []
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    size = index = time_index = 0
    for segment, end in zip(segments, ends, strict=True):
        size += segment.size_bytes
        index += segment.index_bytes
        time_index += segment.time_index_bytes
        fits = (
            groups
            and size <= config.segment_bytes
            and index <= config.segment_index_bytes
            and time_index <= config.segment_index_bytes
            and (not segment.size_bytes or end - 1 - groups[-1][0].base_offset <= INT_MAX)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index, time_index = segment.size_bytes, segment.index_bytes, segment.time_index_bytes
    return groups
