"""A segment in remote storage, as its metadata records describe it (KIP-405, RemoteLogSegmentMetadata)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

#: Leader epochs with their first offsets, both ascending.
Epochs = tuple[tuple[int, int], ...]


class SegmentState(IntEnum):
    """The number is the one in the records (RemoteLogSegmentState)."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


#: The states that may follow a state. Each state may also follow itself, since a record may be written twice.
_FOLLOWING = {
    SegmentState.COPY_STARTED: {SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED},
    SegmentState.COPY_FINISHED: {SegmentState.DELETE_STARTED},
    SegmentState.DELETE_STARTED: {SegmentState.DELETE_FINISHED},
    SegmentState.DELETE_FINISHED: set[SegmentState](),
}


def may_follow(state: SegmentState, earlier: SegmentState) -> bool:
    """Return whether a segment in state `earlier` may enter `state`."""
    return state is earlier or state in _FOLLOWING[earlier]


class RemoteSegment(NamedTuple):
    """One copy of a segment. Each attempt to copy a segment has an id of its own.

    `end_offset` is inclusive; times are in ms since 1970. `epochs` are the leader epochs of its records, the first one
    with the segment's first offset. `custom` is what the storage wants to know later about its objects.
    """

    id: bytes
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    broker_id: int
    size_bytes: int
    epochs: Epochs
    state: SegmentState = SegmentState.COPY_STARTED
    custom: bytes | None = None
    #: Whether it has no aborted transactions, so that there is no transaction index.
    has_no_aborted: bool = False

    def end_of_epoch(self, epoch: int) -> int:
        """Return the last offset of the segment's records of `epoch`, which is one of its epochs."""
        later = (start - 1 for number, start in self.epochs if number > epoch)
        return next(later, self.end_offset)


class SegmentUpdate(NamedTuple):
    """A segment that is known enters another state (RemoteLogSegmentMetadataUpdate)."""

    id: bytes
    state: SegmentState
    event_timestamp_ms: int
    broker_id: int
    custom: bytes | None = None
