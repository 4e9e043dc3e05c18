"""A hand-written decoder for Fetch of one partition, without schema structs.

Consumers send it that read a single partition, or that use one connection and request per partition. All fields except
the topic's name have fixed positions, so two layouts decode it. `parse` returns None for requests of any other shape
(several partitions, a rack, tagged fields, a follower's). A property test compares it with the schema's decoder.
v11-v18, the versions of current clients.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

from protocol.primitives import ZERO_UUID

FIRST_VERSION = 11
_FIRST_FLEXIBLE = 12
_FIRST_WITH_TOPIC_ID = 13
_FIRST_WITH_REPLICA_STATE = 15
_CONSUMER = -1
_NEW_TUPLE = tuple.__new__

# Replica (up to v14), wait, least and most bytes, isolation level, session and its epoch, number of topics ...
_PLAIN_HEAD = Layout(">iiiibiiih")  # ... and size of the topic's name
_COMPACT_HEAD = Layout(">iiiibiiBB")
_ID_HEAD = Layout(">iiiibiiB16s")
_STATE_HEAD = Layout(">iiibiiB16s")
# Number of partitions, index, leader epoch, offset, (last fetched epoch,) log start offset, most bytes, ...
_PLAIN_TAIL = Layout(">iiiqqiih")  # ... forgotten topics, size of the rack
_COMPACT_TAIL = Layout(">Biiqiqi5s")  # ... no tags of partition and topic, forgotten topics, rack, no tags
_NOTHING_ELSE = b"\0\0\1\1\0"
# Sizes of bodies with a topic id, which all requests of the shape have.
_ID_SIZE, _STATE_SIZE = _ID_HEAD.size + _COMPACT_TAIL.size, _STATE_HEAD.size + _COMPACT_TAIL.size


class SingleFetch(NamedTuple):
    """A decoded request. `topic` is empty if the topic has an id.

    `key` are the bytes that name the topic in responses of the same version (`fetch_answer.answer_one`).
    """

    topic: str
    topic_id: bytes
    key: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    partition_max_bytes: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int


def parse(version: int, frame: memoryview, position: int) -> SingleFetch | None:
    """Return the request whose body begins at `position` and ends with the frame; None if it has another shape."""
    end = len(frame)
    topic, topic_id, key = "", ZERO_UUID, b""
    replica, last_epoch = _CONSUMER, -1
    if version >= _FIRST_WITH_TOPIC_ID:
        if version >= _FIRST_WITH_REPLICA_STATE:
            if end - position != _STATE_SIZE:
                return None
            wait, min_bytes, max_bytes, isolation, session, epoch, topics, topic_id = _STATE_HEAD.unpack_from(
                frame, position
            )
        else:
            if end - position != _ID_SIZE:
                return None
            replica, wait, min_bytes, max_bytes, isolation, session, epoch, topics, topic_id = _ID_HEAD.unpack_from(
                frame, position
            )
    else:
        head, tail = (_COMPACT_HEAD, _COMPACT_TAIL) if version >= _FIRST_FLEXIBLE else (_PLAIN_HEAD, _PLAIN_TAIL)
        at = position + head.size
        if at > end or version < FIRST_VERSION:
            return None
        replica, wait, min_bytes, max_bytes, isolation, session, epoch, topics, size = head.unpack_from(frame, position)
        if version >= _FIRST_FLEXIBLE:
            size = size - 1 if size < 128 else -1  # the first byte of a longer name's size shows that another follows
        if size < 0 or at + size + tail.size != end:
            return None
        try:
            topic = str(frame[at : at + size], "utf-8")
            key = bytes(frame[at - (1 if version >= _FIRST_FLEXIBLE else 2) : at + size])
        except UnicodeDecodeError:
            return None
    if version >= _FIRST_FLEXIBLE:
        partitions, index, leader, offset, last_epoch, _, bytes_, rest = _COMPACT_TAIL.unpack_from(
            frame, end - _COMPACT_TAIL.size
        )
        if topics != 2 or partitions != 2 or rest != _NOTHING_ELSE:
            return None
    else:
        partitions, index, leader, offset, _, bytes_, forgotten, rack = _PLAIN_TAIL.unpack_from(
            frame, end - _PLAIN_TAIL.size
        )
        if topics != 1 or partitions != 1 or forgotten or rack:
            return None
    if replica != _CONSUMER:
        return None
    asked = index, leader, offset, last_epoch, bytes_, wait, min_bytes, max_bytes, isolation, session, epoch
    fields = (topic, topic_id, key or topic_id, *asked)
    return _NEW_TUPLE(SingleFetch, fields)
