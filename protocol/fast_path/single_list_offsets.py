"""A hand-written codec for ListOffsets of one end of one partition, without schema structs.

Spark's Kafka connector sends two such requests for every 500 records. All fields except the topic's name have fixed
positions, so two layouts decode it. `parse` returns None for requests of any other shape (several partitions, tagged
fields, a follower's). A property test compares it with the schema's codec. Flexible versions only (v6-v11).
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

FIRST_VERSION = 6
_FIRST_WITH_TIMEOUT = 10
_CONSUMER = -1
_NEW_TUPLE = tuple.__new__

#: Replica, isolation level, number of topics, size of the topic's name.
_HEAD = Layout(">ibBB")
#: Number of partitions, index, leader epoch, timestamp, no tagged fields of partition and topic, (timeout,) no tagged
#: fields.
_TAIL = Layout(">Biiq3s")
_TAIL_WITH_TIMEOUT = Layout(">Biiq2s4xs")
#: Size, correlation id, no tagged fields, no throttle time, number of topics, size of the topic's name.
_ANSWER = Layout(">iix4xBB")
#: Number of partitions, index, no error, no timestamp, offset, leader epoch, no tagged fields.
_ANSWER_TAIL = Layout(">Bi2xqqi3x")


class SingleListOffsets(NamedTuple):
    """A decoded request. `name` is the topic's name in UTF-8."""

    topic: str
    name: bytes
    partition: int
    current_leader_epoch: int
    timestamp: int
    isolation_level: int


def parse(version: int, frame: memoryview, position: int) -> SingleListOffsets | None:
    """Return the request whose body begins at `position` and ends with the frame; None if it has another shape."""
    tail = _TAIL_WITH_TIMEOUT if version >= _FIRST_WITH_TIMEOUT else _TAIL
    at, end = position + _HEAD.size, len(frame) - tail.size
    if at > end:
        return None
    replica, isolation, topics, size = _HEAD.unpack_from(frame, position)
    # The first byte of a longer name's size shows that another follows.
    if replica != _CONSUMER or topics != 2 or not 0 < size < 128 or at + size - 1 != end:
        return None
    partitions, index, leader_epoch, timestamp, *tags = tail.unpack_from(frame, end)
    if partitions != 2 or any(b"".join(tags)):
        return None
    name = bytes(frame[at:end])
    try:
        topic = name.decode()
    except UnicodeDecodeError:
        return None
    return _NEW_TUPLE(SingleListOffsets, (topic, name, index, leader_epoch, timestamp, isolation))


def answer(correlation_id: int, request: SingleListOffsets, offset: int, leader_epoch: int) -> bytes:
    """Return the response frame with an offset and no timestamp, because log ends have none."""
    name = request.name
    total = _ANSWER.size - 4 + len(name) + _ANSWER_TAIL.size
    head = _ANSWER.pack(total, correlation_id, 2, len(name) + 1)
    return head + name + _ANSWER_TAIL.pack(2, request.partition, -1, offset, leader_epoch)
