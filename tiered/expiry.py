"""Which remote segments of a log have expired (KIP-405, RLMExpirationTask)."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from tiered.lineage import Lineage, with_records
from tiered.segment import Epochs, RemoteSegment, SegmentState
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
    is counted. The time does not depend on the number of segments that are counted.
    """
    own = with_records(lineage.epochs)
    exceptions: dict[bytes, RemoteSegment] = {}
    total = 0
    for (epoch, start_offset), end_offset in zip(own, _ends(own, lineage.log_end_offset), strict=True):
        # the first epoch may begin earlier than this log, as its start was moved up
        first_start = start_offset if epoch != own[0][0] else -1
        total += segments.ordered_bytes(epoch, first_start, log_start_offset, min(end_offset, lineage.log_end_offset))
        exceptions.update((each.id, each) for each in segments.exceptions(epoch))
    return total + sum(
        segment.size_bytes
        for segment in exceptions.values()
        if segment.state is SegmentState.COPY_FINISHED
        and lineage.contains(segment)
        and segment.end_offset >= log_start_offset
        and not segments.is_replaced(segment, lineage.contains)
    )


def _ends(epochs: Epochs, log_end_offset: int) -> list[int]:
    """Return the end offset (exclusive) of each epoch."""
    return [*(start for _, start in epochs[1:]), log_end_offset][: len(epochs)]


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
    The time depends on the number of segments that expire and of `RemoteSegments.exceptions`, not on that of all.
    """
    expired_before_ms = now_ms - retention.ms if 0 <= retention.ms <= now_ms else None
    excess = 0
    if retention.bytes >= 0:
        excess = max(0, only_local_bytes + remote_bytes(segments, lineage, log_start_offset) - retention.bytes)
    new_start = None
    found: dict[bytes, RemoteSegment] = {}
    stays = False

    def may_expire(epoch: int, epoch_end: int, start_offset: int) -> bool:
        """Return whether a segment of `epoch` that is no exception may expire."""
        if start_offset < log_start_offset and epoch == lineage.epochs[0][0]:
            return True
        # A segment that starts behind the epoch's end is of another lineage: only its copy in progress ends the search.
        return not stays and (start_offset <= epoch_end or bool(copying))

    ends = _ends(lineage.epochs, lineage.log_end_offset)
    for (epoch, _), epoch_end in zip(lineage.epochs, ends, strict=True):
        for segment in segments.walk(epoch, partial(may_expire, epoch, epoch_end)):
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
    return segments.before(lineage.epochs[0][0])
