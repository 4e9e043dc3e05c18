"""Fetch requests of followers in a session, read and written without schema structs.

A follower's fetch ends with its replica state, the only tagged field. One C call reads all partitions of a topic.
`parse` returns None for all other requests, among them those that have some partitions forgotten, and for malformed
bytes: the schema reads those. A property test compares it with the schema's decoder. v17-v18, in which brokers that are
members fetch from each other.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import TypeAlias

from protocol.error_codes import ProtocolError
from protocol.primitives import length_rest, unsigned_varint

FIRST_VERSION = 17
#: More partitions of one topic, or more topics, are left to the schema, which bounds the elements of a request.
_MOST_ELEMENTS = 1 << 14

#: Wait, least and most bytes, isolation level, session and its epoch, number of topics.
_HEAD = Layout(">iiibiiB")
_TOPIC_ID_SIZE = 16
#: Index, leader epoch, offset, last fetched epoch, log start offset, most bytes, number of tagged fields.
_PARTITION = Layout(">iiqiqiB")
_PARTITION_SIZE = _PARTITION.size
#: No forgotten topics, no rack, one tagged field: the replica state, and its size.
_BEFORE_STATE = b"\1\1\1\1\x0d"
#: Replica id and epoch, no tagged fields.
_STATE = Layout(">iqB")
_NO_TAGS = b"\0"
_END_SIZE = len(_BEFORE_STATE) + _STATE.size

#: Index, leader epoch, offset, last fetched epoch, log start offset, most bytes, number of tagged fields.
FetchedByFollower: TypeAlias = "tuple[int, int, int, int, int, int, int]"
#: Wait (ms), least and most bytes, isolation level, session id and epoch, replica id and epoch, and the topics: their
#: ids with their partitions.
FollowerFetch: TypeAlias = "tuple[int, int, int, int, int, int, int, int, list[tuple[bytes, list[FetchedByFollower]]]]"


def parse(frame: memoryview, position: int) -> FollowerFetch | None:
    """Return the request whose body begins at `position` and ends with the frame; None: it has another shape."""
    end = len(frame) - _END_SIZE
    if end < position or frame[end : end + len(_BEFORE_STATE)] != _BEFORE_STATE:
        return None
    replica_id, replica_epoch, tags = _STATE.unpack_from(frame, end + len(_BEFORE_STATE))
    try:
        wait, min_bytes, max_bytes, isolation, session, epoch, topic_count = _HEAD.unpack_from(frame, position)
        at = position + _HEAD.size
        if not 0 < topic_count < 128 or tags or replica_id < 0:
            return None
        topics: list[tuple[bytes, list[FetchedByFollower]]] = []
        for _ in range(topic_count - 1):
            topic_id = bytes(frame[at : at + _TOPIC_ID_SIZE])
            at += _TOPIC_ID_SIZE
            count = frame[at]
            at += 1
            if count > 127:
                count, at = length_rest(frame, at, count)
            if not 0 < count < _MOST_ELEMENTS:
                return None
            following = at + (count - 1) * _PARTITION_SIZE
            if following >= end or frame[following]:
                return None
            topics.append((topic_id, list(_PARTITION.iter_unpack(frame[at:following]))))
            at = following + 1
    except (IndexError, LayoutError, ProtocolError):
        return None
    if at != end:
        return None
    return wait, min_bytes, max_bytes, isolation, session, epoch, replica_id, replica_epoch, topics


def encode(
    wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session: tuple[int, int],
    replica: tuple[int, int],
    topics: dict[bytes, list[FetchedByFollower]],
) -> bytes | None:
    """Return the body of a request that `parse` reads, with the ids and epochs of session and replica; None: too many
    topics. It equals the schema's.
    """
    count = len(topics) + 1
    if count > 127:
        return None
    parts = [_HEAD.pack(wait_ms, min_bytes, max_bytes, 0, *session, count)]
    for topic_id, partitions in topics.items():
        parts += topic_id, unsigned_varint(len(partitions) + 1)
        for each in partitions:
            parts.append(_PARTITION.pack(*each))
        parts.append(_NO_TAGS)
    parts += _BEFORE_STATE, _STATE.pack(*replica, 0)
    return b"".join(parts)
