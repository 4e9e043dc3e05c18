"""A cleaning round as a job for a worker process: plain values that can be pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from storage.cleaner.output import CleanedSegment
from storage.log_config import INT_MAX, LogConfig


class SourceSegment(msgspec.Struct, frozen=True):
    """A segment to clean: its base offset and the sizes of its files."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


class LastRecord(msgspec.Struct, frozen=True):
    """A producer's epoch and the offset of its last data record; None if it has only markers."""

    producer_epoch: int
    offset: int | None


class Resources(msgspec.Struct, frozen=True):
    """The limits of one cleaner: its share of log.cleaner.dedupe.buffer.size and similar keys."""

    memory_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


class CleanJob(msgspec.Struct, frozen=True):
    """One round of one log.

    `segments` are all cleanable segments, oldest first, up to `end_offset`. Records below `first_dirty_offset` were
    cleaned before. `transaction_indexes` are the paths of all segments' transaction indexes, also of later ones.
    `producers` are by id.
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
    """The result of a round: the cleaned segments in order, and the first dirty offset of the next round.

    `read_bytes` and `kept_bytes` are sizes of records. `keys` is the number of keys in the dirty part.
    """

    segments: tuple[CleanedSegment, ...]
    end_offset: int
    read_bytes: int
    kept_bytes: int
    read_records: int
    kept_records: int
    keys: int


def group_segments(segments: Sequence[SourceSegment], config: LogConfig, end_offset: int) -> list[list[SourceSegment]]:
    """Group neighbouring segments that become one: together within segment.bytes and the size of an index."""
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
