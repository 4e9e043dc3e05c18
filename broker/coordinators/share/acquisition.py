"""Acquire records for a member: available records of a batch in flight, and new records of the log.

Records that keep failing are delivered in ever smaller portions, so that one bad record delays few others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from broker.coordinators.share.limits import Limits
from broker.coordinators.share.runs import Batch, RecordState

#: The least number of deliveries after which failing records are delivered in ever smaller portions.
_FEWEST_BEFORE_THROTTLING = 2


class Acquired(NamedTuple):
    """Records given to a member. `delivery_count` includes this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcquireRequest(msgspec.Struct, frozen=True):
    """A member's request. `exact`: no more than `max_records` (record_limit); else whole batches of the log."""

    member_id: str
    max_records: int
    batch_size: int
    exact: bool = False


def acquire_again(
    batch: Batch,
    first: int,
    last: int,
    left: int,
    wanted: AcquireRequest,
    limits: Limits,
    deadline_ms: float,
    *,
    is_first: bool,
) -> tuple[list[Acquired], bool]:
    """Return the available records of a batch: all of them, unless the member counts records.

    Also return whether to stop there: some of these records failed so often that they are delivered in portions.
    Such records are only delivered if they are first (`is_first`), with no other record before them. The portion then
    limits the records before them, too.
    """
    available = [run for run in batch.between(first, last) if run.state is RecordState.AVAILABLE]
    threshold = max(_FEWEST_BEFORE_THROTTLING, -(-limits.delivery_count // 2))
    is_throttled = any(run.count >= threshold for run in available)
    if is_throttled and not is_first:
        return [], True
    taken: list[Acquired] = []
    total = 0
    portion = 0  # unknown until a run that keeps failing is found
    for run in available:
        is_last_time = run.count >= limits.delivery_count - 1 and limits.delivery_count > _FEWEST_BEFORE_THROTTLING
        if is_last_time and taken:
            break
        begin, end = max(run.first, first), min(run.last, last)
        if run.count >= threshold and not portion:
            portion = max(1, (batch.last - batch.first + 1) >> (run.count - threshold + 1))
        if is_last_time:
            end = begin
        if total < portion:
            end = min(end, begin + portion - total - 1)
        if wanted.exact:
            end = min(end, begin + left - total - 1)
        batch.cut(begin)
        batch.cut(end + 1)
        [each] = batch.between(begin, end)
        each.state, each.member_id, each.deadline_ms = RecordState.ACQUIRED, wanted.member_id, deadline_ms
        each.count += 1
        taken.append(Acquired(each.first, each.last, each.count))
        total += end - begin + 1
        if is_last_time or total == portion or (wanted.exact and total >= left):
            break
    return _joined(taken), is_throttled


def acquire_new(
    log_batches: Sequence[tuple[int, int]], end_offset: int, left: int, room: int, wanted: AcquireRequest
) -> list[Acquired]:
    """Return records from `end_offset` on, split at the batches of the log; as one batch if the member counts records.

    `left`: records the member still asks for; `room`: records that may still be locked.
    """
    taken: list[Acquired] = []
    begin: int | None = None
    end = -1
    total = 0
    for log_first, log_last in log_batches:
        first, last = max(log_first, end_offset), log_last
        if last < first:
            continue
        if total >= left or total >= room:
            break
        if wanted.exact:
            last = min(last, first + min(left, room) - total - 1)
        if begin is None:
            begin = first
        end = last
        total = end - taken[0].first_offset + 1 if taken else end - begin + 1
        if end - begin + 1 >= wanted.batch_size and not wanted.exact:
            taken.append(Acquired(begin, end, 1))
            begin = None
    if begin is not None:
        taken.append(Acquired(begin, end, 1))
    return taken


def _joined(taken: list[Acquired]) -> list[Acquired]:
    joined: list[Acquired] = []
    for each in taken:
        last = joined[-1] if joined else None
        if last is not None and last.last_offset + 1 == each.first_offset and last[2] == each[2]:
            joined[-1] = last._replace(last_offset=each.last_offset)
        else:
            joined.append(each)
    return joined
