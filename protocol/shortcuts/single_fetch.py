"""Fetch requests for one partition, read and answered without structs: what a consumer sends that reads a single
partition, or that keeps a connection and a request for each.

All of such a request lies at fixed places, but for a topic's name, so two layouts read it. Requests of any other shape
(several partitions, a rack, tagged fields, a follower's) are none of this module's business: `parse` says so with None.
A property test keeps all of it equal to the schema's codec. v11-v18: what current clients send.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

from protocol.primitives import ZERO_UUID, unsigned_varint
from protocol.schema import Chunk

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
# size, correlation id, no tags (v12), no throttling, error code, session, number of topics, size of the name or the id
_PLAIN_ANSWER = Layout(">ii4xhiih")
_COMPACT_ANSWER = Layout(">iix4xhiBB")
_ID_ANSWER = Layout(">iix4xhiB16s")
# number of partitions, index, error code, high watermark, last stable offset, log start offset, no aborted
# transactions, preferred replica, (size of the records)
_PLAIN_DATA = Layout(">iihqqqiii")
_COMPACT_DATA = Layout(">BihqqqBi")
_COMPACT_END = b"\0\0\0"
# ... session, number of topics; no tags
_PLAIN_NOTHING = Layout(">ii4xhii")
_COMPACT_NOTHING = Layout(">iix4xhiBx")


class SingleFetch(NamedTuple):
    """What the request says. `topic` is empty where the topic is named by its id."""

    topic: str
    topic_id: bytes
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
    """The request whose body begins at `position` and ends with the frame; None: it has another shape, or none."""
    end = len(frame)
    topic, topic_id = "", ZERO_UUID
    replica, last_epoch = _CONSUMER, -1
    if version >= _FIRST_WITH_TOPIC_ID:
        if version >= _FIRST_WITH_REPLICA_STATE:
            if position + _STATE_HEAD.size + _COMPACT_TAIL.size != end:
                return None
            wait, least, most, isolation, session, epoch, topics, topic_id = _STATE_HEAD.unpack_from(frame, position)
        else:
            if position + _ID_HEAD.size + _COMPACT_TAIL.size != end:
                return None
            replica, wait, least, most, isolation, session, epoch, topics, topic_id = _ID_HEAD.unpack_from(
                frame, position
            )
    else:
        head, tail = (_COMPACT_HEAD, _COMPACT_TAIL) if version >= _FIRST_FLEXIBLE else (_PLAIN_HEAD, _PLAIN_TAIL)
        at = position + head.size
        if at > end or version < FIRST_VERSION:
            return None
        replica, wait, least, most, isolation, session, epoch, topics, size = head.unpack_from(frame, position)
        if version >= _FIRST_FLEXIBLE:
            size = size - 1 if size < 128 else -1  # the first byte of a longer name's size says more is to come
        if size < 0 or at + size + tail.size != end:
            return None
        try:
            topic = str(frame[at : at + size], "utf-8")
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
    fields = topic, topic_id, index, leader, offset, last_epoch, bytes_, wait, least, most, isolation, session, epoch
    return _NEW_TUPLE(SingleFetch, fields)


def answer(
    version: int,
    correlation_id: int,
    request: SingleFetch,
    session_id: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    records: Chunk,
) -> list[Chunk]:
    """The frame of the good answer: for one who reads everything, so without aborted transactions.

    In one piece where the records are bytes, else they are a piece of their own.
    """
    size = len(records)
    offsets = high_watermark, last_stable_offset, log_start_offset
    if version < _FIRST_FLEXIBLE:
        name = request.topic.encode()
        data = _PLAIN_DATA.pack(1, request.partition, 0, *offsets, -1, -1, size)
        total = _PLAIN_ANSWER.size - 4 + len(name) + len(data) + size
        head = _PLAIN_ANSWER.pack(total, correlation_id, 0, session_id, 1, len(name)) + name
        return [head + data + records] if isinstance(records, bytes) else [head + data, records]
    data = _COMPACT_DATA.pack(2, request.partition, 0, *offsets, 0, -1) + unsigned_varint(size + 1)
    if version < _FIRST_WITH_TOPIC_ID:
        name = request.topic.encode()
        total = _COMPACT_ANSWER.size - 4 + len(name) + len(data) + size + len(_COMPACT_END)
        head = _COMPACT_ANSWER.pack(total, correlation_id, 0, session_id, 2, len(name) + 1) + name
    else:
        total = _ID_ANSWER.size - 4 + len(data) + size + len(_COMPACT_END)
        head = _ID_ANSWER.pack(total, correlation_id, 0, session_id, 2, request.topic_id)
    if isinstance(records, bytes):
        return [head + data + records + _COMPACT_END]
    return [head + data, records, _COMPACT_END]


def nothing_new(version: int, correlation_id: int, session_id: int) -> list[Chunk]:
    """The frame of the answer in a session that has nothing to say."""
    if version < _FIRST_FLEXIBLE:
        return [_PLAIN_NOTHING.pack(_PLAIN_NOTHING.size - 4, correlation_id, 0, session_id, 0)]
    return [_COMPACT_NOTHING.pack(_COMPACT_NOTHING.size - 4, correlation_id, 0, session_id, 1)]
