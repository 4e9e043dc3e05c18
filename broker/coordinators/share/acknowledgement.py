"""Acknowledgements of acquired records (KIP-932; renewals: KIP-1222), and the state changes that they cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.coordinators.share.limits import Limits
from broker.coordinators.share.runs import Batch, Change, RecordState
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode


class Acknowledge(IntEnum):
    """The type of a record's acknowledgement."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_BECOMES = {
    Acknowledge.GAP: RecordState.ARCHIVED,
    Acknowledge.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledge.RELEASE: RecordState.AVAILABLE,
    Acknowledge.REJECT: RecordState.ARCHIVED,
}


class Acknowledged(NamedTuple):
    """A batch of acknowledgements: one type for all records, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


def check_acknowledgements(batches: Sequence[Acknowledged], *, may_renew: bool) -> None:
    """Check a request without looking at the records' states. Raises Refused: INVALID_REQUEST."""
    before = -1
    for first, last, types in batches:
        if not types or first > last or first < before:
            raise Refused(ErrorCode.INVALID_REQUEST)
        if len(types) not in (1, last - first + 1):
            raise Refused(ErrorCode.INVALID_REQUEST)
        highest = Acknowledge.RENEW if may_renew else Acknowledge.REJECT
        if min(types) < Acknowledge.GAP or max(types) > highest:
            raise Refused(ErrorCode.INVALID_REQUEST)
        before = last


def by_type(acknowledged: Acknowledged, start_offset: int) -> Iterator[tuple[int, int, Acknowledge]]:
    """Yield the ranges of a batch that have the same acknowledgement type, from the start offset on."""
    first, last, types = acknowledged
    if len(types) == 1:
        yield max(first, start_offset), last, Acknowledge(types[0])
        return
    begin = max(first, start_offset)
    for offset in range(begin, last + 1):
        if offset == last or types[offset + 1 - first] != types[begin - first]:
            yield begin, offset, Acknowledge(types[begin - first])
            begin = offset + 1


def changes_of(
    batch: Batch, member_id: str, first: int, last: int, kind: Acknowledge, limits: Limits
) -> Iterator[Change]:
    """Return the changes to the records of a batch between two offsets. Raises Refused: INVALID_RECORD_STATE."""
    for run in batch.between(first, last):
        if not batch.is_split:
            if run.state is not RecordState.ACQUIRED:
                raise bad_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
            if run.member_id != member_id:
                raise bad_state("Member is not the owner of batch record")
        if run.state is not RecordState.ACQUIRED:
            raise bad_state("The offset cannot be acknowledged. The offset is not acquired.")
        if run.member_id != member_id:
            raise bad_state("Member is not the owner of offset")
        state_after = RecordState.ACQUIRED if kind is Acknowledge.RENEW else _BECOMES[kind]
        is_rejected = kind is Acknowledge.REJECT
        if is_rejected or (state_after is RecordState.AVAILABLE and run.count >= limits.delivery_count):
            state_after = limits.exhausted
        yield Change(batch, max(run.first, first), min(run.last, last), state_after, run.count, is_rejected)


def invalid(message: str) -> Refused:
    """Return the error for a malformed request."""
    return Refused(ErrorCode.INVALID_REQUEST, message)


def bad_state(message: str) -> Refused:
    """Return the error for records that the member may not acknowledge."""
    return Refused(ErrorCode.INVALID_RECORD_STATE, message)
