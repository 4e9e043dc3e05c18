"""Segments in remote storage for tests."""

from __future__ import annotations

from hashlib import blake2b

from tiered.segment import Epochs, RemoteSegment, SegmentState, SegmentUpdate
from tiered.segments import RemoteSegments

STARTED, FINISHED = SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED
DELETING, DELETED = SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED


def id_of(number: int) -> bytes:
    return blake2b(number.to_bytes(4, "big"), digest_size=16).digest()


def segment(number: int, start: int, end: int, epochs: Epochs | None = None, size_bytes: int = 100) -> RemoteSegment:
    return RemoteSegment(id_of(number), start, end, end, 1, 7, size_bytes, epochs or ((0, start),))


def enter(segments: RemoteSegments, number: int, *states: SegmentState) -> bool:
    """Write an update for each state; return whether all were accepted."""
    accepted = [segments.update(SegmentUpdate(id_of(number), state, 2, 7)) for state in states]
    return all(accepted)


def copied(*each: RemoteSegment) -> RemoteSegments:
    segments = RemoteSegments()
    for copy in each:
        assert segments.add(copy)
        assert segments.update(SegmentUpdate(copy.id, FINISHED, 2, 7))
    return segments
