"""A hand-written codec for OffsetCommit of one topic without metadata, without schema structs.

Most consumers send nothing else. `parse` returns None for all other requests and for malformed bytes, which the schema
decodes. Property tests compare both functions with the schema's codec. Flexible versions only (v8-v10).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import NamedTuple

from protocol.primitives import ZERO_UUID

FIRST_VERSION = 8
_FIRST_WITH_TOPIC_ID = 10

_int32_at = Layout(">i").unpack_from
_TOPIC_ID_SIZE = 16
#: The number of topics, which is one.
_ONE_TOPIC = 2
#: Partition, offset, leader epoch; empty metadata, no tagged fields.
_OFFSET = "iqi2x"
_OFFSET_SIZE = Layout(f">{_OFFSET}").size
#: The positions of the metadata and of the number of tagged fields in it; and the first bytes of null and of an empty
#: string.
_METADATA_AT, _TAGS_AT = 16, 17
_NO_METADATA = b"\0\1"
#: Counts and string lengths up to this have one byte, which holds the number plus one.
_MOST = 127
_FRAME = Layout(">iixi")
_UNSIZED = 4
_PARTITION = Layout(">ihx")
#: The ends of two structs without tagged fields.
_TWO_ENDS = b"\0\0"


class Offsets(NamedTuple):
    """The committed offsets, in columns of one length."""

    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class SingleCommit(NamedTuple):
    """A decoded request, with the names of the schema. `topic` is empty if the topic has an id instead.

    `key` are the bytes that name the topic in requests and responses.
    """

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topic: str
    topic_id: bytes
    key: bytes
    offsets: Offsets


def parse(version: int, frame: memoryview, position: int) -> SingleCommit | None:
    """Return the request whose body begins at `position` and ends with the frame; None if it has another shape."""
    body = bytes(frame[position:])
    topic, topic_id = "", ZERO_UUID
    try:
        at = body[0]
        group_id = str(body[1:at], "utf-8")
        (generation,) = _int32_at(body, at)
        member_at = at + 5
        at = member_at + body[member_at - 1] - 1
        member_id = str(body[member_at:at], "utf-8")
        size = body[at]
        instance_id = None
        if size:
            instance_id = str(body[at + 1 : at + size], "utf-8")
        lengths = (body[0], body[member_at - 1], size)
        at += size or 1
        if min(lengths[:2]) < 1 or max(lengths) > _MOST or body[at] != _ONE_TOPIC:
            return None
        at += 1
        if version >= _FIRST_WITH_TOPIC_ID:
            key = topic_id = body[at : at + _TOPIC_ID_SIZE]
        else:
            if not 0 < body[at] <= _MOST:
                return None
            key = body[at : at + body[at]]
            topic = str(key[1:], "utf-8")
        at += len(key)
        start, count = at + 1, body[at] - 1
        end = start + count * _OFFSET_SIZE
        if not 0 < count < _MOST or body[end:] != _TWO_ENDS:
            return None
        fields = _offsets(count).unpack_from(body, start)
    except (IndexError, LayoutError, UnicodeDecodeError):
        return None
    if body[start + _METADATA_AT : end : _OFFSET_SIZE].strip(_NO_METADATA) or any(
        body[start + _TAGS_AT : end : _OFFSET_SIZE]
    ):
        return None
    offsets = Offsets(fields[::3], fields[1::3], fields[2::3])
    return SingleCommit(group_id, generation, member_id, instance_id, topic, topic_id, key, offsets)


@lru_cache(_MOST)
def _offsets(count: int) -> Layout:
    """Return the layout of `count` partitions of a request."""
    return Layout(f">{_OFFSET * count}")


def answer(correlation_id: int, commit: SingleCommit, code: int) -> bytes:
    """Return the frame of a response with the same code for all partitions."""
    pack = _PARTITION.pack
    partitions = commit.offsets.partitions
    rows = b"".join([pack(partition, code) for partition in partitions])
    body = b"\2%b%c%b%b" % (commit.key, len(partitions) + 1, rows, _TWO_ENDS)
    return _FRAME.pack(_FRAME.size - _UNSIZED + len(body), correlation_id, 0) + body
