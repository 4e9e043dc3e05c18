"""A hand-written codec for OffsetCommit of one topic without metadata, the usual request of consumers.

Two such requests of a member differ only in their offsets. The bytes before the offsets (the head) are decoded by the
schema once and cached (prefix_cache.py). `read` returns None for requests of any other shape. A property test compares
the codec with the schema's. Flexible versions only (v8-v10).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import NamedTuple

from protocol.errors import ProtocolError
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.primitives import unsigned_varint
from protocol.shortcuts.prefix_cache import Head, Heads

FIRST_VERSION = 8
_FIRST_WITH_TOPIC_ID = 10

#: Partition, offset, leader epoch; empty metadata, no tagged fields.
_OFFSET = "iqi2x"
_OFFSET_SIZE = Layout(f">{_OFFSET}").size
#: The lengths of null and of an empty string.
_NO_METADATA = b"\0\1"
_FRAME = Layout(">iixi")
_PARTITION = Layout(">ihx")
#: The minimum number of cached heads, of about 540 bytes; a member has one for each topic and generation.
_CAPACITY = 2_048
#: The number of cached partition lists with their responses: a member commits for the same partitions again.
_KNOWN_LISTS = 1_024
#: The ends of two structs without tagged fields.
_TWO_ENDS = b"\0\0"
#: No partitions, and the ends.
_SHORTEST_END = b"\1" + _TWO_ENDS


class Offsets(NamedTuple):
    """The committed offsets, in columns of one length."""

    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class SingleCommit(Head):
    """A decoded head, with the names of the schema. `topic` is empty if the topic has an id instead."""

    __slots__ = (
        "_answer_start",
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "topic",
        "topic_id",
    )

    def __init__(self, version: int, head: bytes) -> None:
        """Decode a head. Raises ProtocolError or ValueError if the bytes are not one."""
        super().__init__(head)
        request, _ = OFFSET_COMMIT.request.decode(version, head + _SHORTEST_END)
        if OFFSET_COMMIT.request.encode(version, request) != head + _SHORTEST_END:
            raise ValueError("the head has another encoding")
        (topic,) = request.topics
        self.group_id: str = request.group_id
        self.generation_id_or_member_epoch: int = request.generation_id_or_member_epoch
        self.member_id: str = request.member_id
        self.group_instance_id: str | None = request.group_instance_id
        self.topic: str = topic.name
        self.topic_id: bytes = topic.topic_id
        name = topic.name.encode()
        named = topic.topic_id if version >= _FIRST_WITH_TOPIC_ID else unsigned_varint(len(name) + 1) + name
        self._answer_start = b"\2" + named

    def answer(self, correlation_id: int, partitions: tuple[int, ...], code: int) -> bytes:
        """Return the response frame with the same error code for all partitions."""
        body: bytes = self._answer_start + _answer_end(partitions, code)
        return _FRAME.pack(_FRAME.size - 4 + len(body), correlation_id, 0) + body


class SingleCommits(Heads[SingleCommit]):
    """Reads requests of one version."""

    __slots__ = ("_named", "_version")

    def __init__(self, version: int) -> None:
        super().__init__(_CAPACITY)
        self._version = version
        self._named = version < _FIRST_WITH_TOPIC_ID

    def read(self, frame: memoryview, position: int) -> tuple[SingleCommit, Offsets] | None:
        """Return the request whose body begins at `position` and ends with the frame, and its offsets.

        Returns None if it has another shape or is malformed.
        """
        body = bytes(frame[position:])
        try:
            # The head: group and generation, member, instance; the number of topics; the topic. Each string has a
            # length + 1 of one byte in front.
            at = body[0] + 4
            at += body[at] or 1
            at += body[at] or 1
            at += 1 + (body[at + 1] if self._named else 16)
            start, count = at + 1, body[at] - 1
            end = start + count * _OFFSET_SIZE
            if not 0 < count < 127 or body[end:] != _TWO_ENDS:
                return None
            fields = _offsets(count).unpack_from(body, start)
        except (IndexError, LayoutError):
            return None
        if body[start + 16 : end : _OFFSET_SIZE].strip(_NO_METADATA) or any(body[start + 17 : end : _OFFSET_SIZE]):
            return None
        head = body[:at]
        single = self._latest.get(head) or self._recall(head)
        return None if single is None else (single, Offsets(fields[::3], fields[1::3], fields[2::3]))

    def _parse(self, head: bytes) -> SingleCommit | None:
        try:
            return SingleCommit(self._version, head)
        except (ProtocolError, ValueError):
            return None


@lru_cache(127)
def _offsets(count: int) -> Layout:
    """Return the layout of `count` partitions in a request."""
    return Layout(f">{_OFFSET * count}")


@lru_cache(_KNOWN_LISTS)
def _answer_end(partitions: tuple[int, ...], code: int) -> bytes:
    """Return the end of a response after the topic: the number of partitions, each with the code, and the ends."""
    pack = _PARTITION.pack
    rows = [pack(partition, code) for partition in partitions]
    return b"%c%b%b" % (len(partitions) + 1, b"".join(rows), _TWO_ENDS)
