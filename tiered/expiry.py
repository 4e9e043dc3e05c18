"""Which remote segments of a log have expired (KIP-405, RLMExpirationTask)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tiered.lineage import Lineage
from tiered.segment import RemoteSegment, SegmentState
from tiered.segments import RemoteSegments


class RemoteRetention(NamedTuple):
    """`retention.ms` and `retention.bytes` of a topic; -1: no limit."""

    ms: int = -1
    bytes: int = -1


class Expired(NamedTuple):
    """Segments to delete, oldest first, and the log start offset to set before; None: it stays."""

    segments: list[RemoteSegment]
    log_start_offset: int | None


def remote_bytes(segments: RemoteSegments, lineage: Lineage, log_start_offset: int) -> int:
    """Return the size of what is completely copied of this log.

    A copy that is not finished is not counted, because its records are still counted as local ones (KAFKA-17062).
    Copies before the log's start are not counted either. Of records that were copied twice, the copy that readers find
    is counted.
    """
    return sum(
        segment.size_bytes
        for segment in segments
        if segment.state is SegmentState.COPY_FINISHED
        and lineage.contains(segment)
        and segment.end_offset >= log_start_offset
        and not segments.is_replaced(segment, lineage.contains)
    )


def expired(
    segments: RemoteSegments,
    lineage: Lineage,
    retention: RemoteRetention,
    *,
    log_start_offset: int,
    only_local_bytes: int,
    broker_id: int,
    copying: Collection[bytes],
    now_ms: int,
) -> Expired:
    """Return what has expired by time, by size, or because the log starts behind it.

    `only_local_bytes` is the size of what remote storage does not have yet; `copying` are the ids of copies that this
    broker makes at the moment. Nothing expires behind the first segment of the log that stays. Among the
    result, wherever they are, are deletions that failed, copies of which other copies have all records, and copies that
    this broker did not finish.
    Another broker's unfinished copy is left alone, as it may still be in progress.
    """
    expired_before_ms = now_ms - retention.ms if 0 <= retention.ms <= now_ms else None
    excess = 0
    if retention.bytes >= 0:
        excess = max(0, only_local_bytes + remote_bytes(segments, lineage, log_start_offset) - retention.bytes)
    new_start = None
    found: dict[bytes, RemoteSegment] = {}
    stays = False
    for segment in (each for epoch, _ in lineage.epochs for each in segments.of_epoch(epoch)):
        if segment.id in found:
            continue
        if segment.id in copying:
            stays = True
        elif segment.state is SegmentState.COPY_STARTED and segment.broker_id != broker_id:
            continue
        elif (
            segment.state is not SegmentState.COPY_FINISHED
            or segments.is_replaced(segment, lineage.contains)
            or _lies_before(segment, lineage, log_start_offset)
        ):
            found[segment.id] = segment
        elif not stays and lineage.contains(segment):
            is_old = expired_before_ms is not None and segment.max_timestamp_ms <= expired_before_ms
            if not is_old and not (excess and segment.size_bytes <= excess):
                stays = True
                continue
            excess = max(0, excess - segment.size_bytes)
            found[segment.id] = segment
            new_start = max(new_start or 0, segment.end_offset + 1)
    return Expired([*found.values()], new_start)


def _lies_before(segment: RemoteSegment, lineage: Lineage, log_start_offset: int) -> bool:
    """Return whether the log starts behind the segment. The log's first epoch is then that of its start."""
    return segment.end_offset < log_start_offset and segment.epochs[-1][0] <= lineage.epochs[0][0]


def of_other_lineages(segments: RemoteSegments, lineage: Lineage) -> list[RemoteSegment]:
    """Return the segments of epochs before the log's first one.

    No offset of the log leads to them: they are left after an election of a leader that lacked them.
    """
    if not lineage.epochs:
        return []
    first = lineage.epochs[0][0]
    return [segment for segment in segments if segment.epochs[-1][0] < first]
