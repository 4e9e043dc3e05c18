"""ListOffsets requests for one end of one partition, read and answered without structs: what Spark's Kafka connector
asks twice for every 500 records.

All of such a request lies at fixed places, but for the topic's name, so two layouts read it. Requests of any other
shape (several partitions, tagged fields, a follower's) are none of this module's business: `parse` says so with None.
A property test keeps all of it equal to the schema's codec. Flexible versions only (v6-v11).
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
#: Number of partitions, index, leader epoch, timestamp, no tags of partition and topic, (timeout,) no tags.
_TAIL = Layout(">Biiq3s")
_TAIL_WITH_TIMEOUT = Layout(">Biiq2s4xs")
#: Size, correlation id, no tags, no throttling, number of topics, size of the topic's name.
_ANSWER = Layout(">iix4xBB")
#: Number of partitions, index, no error, no timestamp, offset, leader epoch, no tags.
_ANSWER_TAIL = Layout(">Bi2xqqi3x")


class SingleListOffsets(NamedTuple):
    """What the request says. `name` is the topic's in UTF-8."""

    topic: str
    name: bytes
    partition: int
    current_leader_epoch: int
    timestamp: int
    isolation_level: int


def parse(version: int, frame: memoryview, position: int) -> SingleListOffsets | None:
    """The request whose body begins at `position` and ends with the frame; None: it has another shape, or none."""
    tail = _TAIL_WITH_TIMEOUT if version >= _FIRST_WITH_TIMEOUT else _TAIL
    at, end = position + _HEAD.size, len(frame) - tail.size
    if at > end:
        return None
    replica, isolation, topics, size = _HEAD.unpack_from(frame, position)
    # The first byte of a longer name's size says that more is to come
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
    """The frame of the answer that there is such an offset, and no timestamp, as that of an end has none."""
    name = request.name
    total = _ANSWER.size - 4 + len(name) + _ANSWER_TAIL.size
    head = _ANSWER.pack(total, correlation_id, 2, len(name) + 1)
    return head + name + _ANSWER_TAIL.pack(2, request.partition, -1, offset, leader_epoch)
