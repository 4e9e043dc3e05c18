"""The state of a share-partition in the share coordinator: its start offset, and the delivery state of later records.

Batches of records are ordered and do not overlap. Where a new batch overlaps old ones, each record keeps the higher
delivery count and, at equal counts, the higher state. The count never decreases, except when the state is initialized
again. A higher count may return a record to a lower state, such as archived to available (KIP-932).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

#: There is no start offset yet: the first reader finds it by share.auto.offset.reset.
UNINITIALIZED = -1
#: The count is unknown: an older broker wrote the record.
UNKNOWN_COUNT = -1


class ShareKey(NamedTuple):
    """A partition of a topic, as read by a share group."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The string whose hash chooses the partition of __share_group_state."""
        return f"{self.group_id}:{urlsafe_b64encode(self.topic_id).decode().rstrip('=')}:{self.partition}"


class StateBatch(NamedTuple):
    """The records from `first_offset` to `last_offset`, both included, which are in the same state.

    `delivery_state`: 0 available, 2 acknowledged, 3 archiving, 4 archived. Other values are kept as they are.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareState(msgspec.Struct, frozen=True):
    """The whole state of a share-partition. `snapshot_epoch` counts its snapshots; times are ms since 1970.

    `delivery_complete_count`: number of records from the start on that are acknowledged or archived.
    """

    state_epoch: int
    start_offset: int
    snapshot_epoch: int = 0
    leader_epoch: int = 0
    delivery_complete_count: int = UNKNOWN_COUNT
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    batches: tuple[StateBatch, ...] = ()


def merge_batches(old: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge old and new batches from `start_offset` on (-1: all); adjacent batches in the same state become one.

    An invalid batch (last_offset < first_offset) is kept, as in Kafka, if it overlaps no other.
    """
    merged: list[StateBatch] = []
    for batch in _disjoint(sorted(_from(start_offset, (*old, *new)))):
        last = merged[-1] if merged else None
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            merged[-1] = StateBatch(last.first_offset, batch.last_offset, *batch[2:])
        else:
            merged.append(batch)
    return tuple(merged)


def _from(start_offset: int, batches: Iterable[StateBatch]) -> Iterable[StateBatch]:
    for batch in batches:
        if start_offset == UNINITIALIZED or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)


def _disjoint(batches: list[StateBatch]) -> Iterable[StateBatch]:
    """Return batches, sorted by first offset, without overlaps.

    The highest delivery count wins, and at equal counts the highest state.
    """
    waiting: list[StateBatch] = []  # batches that overlap or may overlap
    until = -1
    for batch in batches:
        if waiting and batch.first_offset > until:
            yield from _resolved(waiting)
            waiting = []
        until = max(until, batch.last_offset) if waiting else batch.last_offset
        waiting.append(batch)
    yield from _resolved(waiting)


def _resolved(batches: list[StateBatch]) -> Iterable[StateBatch]:
    if len(batches) <= 1:
        return batches
    bounds = sorted({batch.first_offset for batch in batches} | {batch.last_offset + 1 for batch in batches})
    found = []
    # a heap: the highest count first, then the highest state; a batch that has ended is removed when it is on top
    active: list[tuple[int, int, int]] = []
    next_index = 0
    for first, following in pairwise(bounds):
        while next_index < len(batches) and batches[next_index].first_offset == first:
            _, last, state, count = batches[next_index]
            heappush(active, (-count, -state, last))
            next_index += 1
        while active and active[0][2] < first:
            heappop(active)
        if active:
            count, state, _ = active[0]
            found.append(StateBatch(first, following - 1, -state, -count))
    return found


def apply_update(state: ShareState, update: ShareUpdate, now_ms: int) -> ShareState:
    """Return the state after an update. An update without a start offset keeps the old one."""
    start_offset = state.start_offset if update.start_offset == UNINITIALIZED else update.start_offset
    return replace(
        state,
        start_offset=start_offset,
        leader_epoch=update.leader_epoch,
        delivery_complete_count=update.delivery_complete_count,
        write_timestamp_ms=now_ms,
        batches=merge_batches(state.batches, update.batches, start_offset),
    )


class ShareUpdate(msgspec.Struct, frozen=True):
    """One write to the state after the snapshot of `snapshot_epoch`; its batches are only those that changed."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()
