"""Plain Fetch requests for any number of partitions, read without schema structs.

A Fetch is plain when it comes from a consumer and has no rack, no forgotten topics and no tagged fields. One C call
reads all partitions of a topic. `parse` returns None for all others, and for malformed bytes: the schema reads those.
A property test compares it with the schema's decoder. Topics by id only (v13-v18).
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import TypeAlias

from protocol.error_codes import ProtocolError
from protocol.primitives import length_rest

FIRST_VERSION = 13
_FIRST_WITH_REPLICA_STATE = 15
_CONSUMER = -1
#: More partitions of one topic, or more topics, are left to the schema, which bounds the elements of a request.
_MOST_ELEMENTS = 1 << 14

#: Wait, least and most bytes, isolation level, session and its epoch, number of topics; before v15 after the replica.
_HEAD = Layout(">iiibiiB")
_REPLICA = Layout(">i")
_TOPIC_ID_SIZE = 16
#: Index, leader epoch, offset, last fetched epoch, log start offset, most bytes, number of tagged fields.
_PARTITION = Layout(">iiqiqiB")
_PARTITION_SIZE = _PARTITION.size
#: No forgotten topics, no rack, no tagged fields.
_END = b"\1\1\0"

#: Index, leader epoch, offset, last fetched epoch, log start offset, most bytes, number of tagged fields.
AskedPartition: TypeAlias = "tuple[int, int, int, int, int, int, int]"


#: The id of a topic, and its requested partitions.
AskedTopic: TypeAlias = "tuple[bytes, list[AskedPartition]]"
#: Wait (ms), least and most bytes, isolation level, session id and epoch, and the topics.
PlainFetch: TypeAlias = "tuple[int, int, int, int, int, int, list[AskedTopic]]"


def parse(version: int, frame: memoryview, position: int) -> PlainFetch | None:
    """Return the request whose body begins at `position` and ends with the frame; None: it is not plain."""
    end = len(frame)
    try:
        if version >= _FIRST_WITH_REPLICA_STATE:
            wait, min_bytes, max_bytes, isolation, session, epoch, topic_count = _HEAD.unpack_from(frame, position)
            at = position + _HEAD.size
        else:
            (replica,) = _REPLICA.unpack_from(frame, position)
            if replica != _CONSUMER:
                return None
            at = position + _REPLICA.size
            wait, min_bytes, max_bytes, isolation, session, epoch, topic_count = _HEAD.unpack_from(frame, at)
            at += _HEAD.size
        if not 0 < topic_count < 128:
            return None
        topics: list[AskedTopic] = []
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
    if frame[at:] != _END:
        return None
    return wait, min_bytes, max_bytes, isolation, session, epoch, topics
