"""Plain Produce requests: read and answered without schema structs.

A Produce is plain when each of its partitions carries exactly one whole record batch of magic 2, when none of the
batches belongs to a transaction, and when the request has no transactional id and no tagged fields. Nearly all requests
of current producers are plain, whether they write to one partition or to hundreds. `parse` returns None for all others,
and for malformed bytes: the schema reads those. Property tests compare both functions with the schema's codec.

Flexible versions only (v9-v13). Older clients are rare.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import TypeAlias

from protocol.error_codes import ProtocolError
from protocol.primitives import length_rest, unsigned_varint
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL_BIT

FIRST_VERSION = 9
_FIRST_WITH_TOPIC_ID = 13
_MAGIC = 2
#: More partitions of one topic, or more topics, are left to the schema, which bounds the elements of a request.
_MOST_ELEMENTS = 1 << 14

#: The front of a request for one partition, by topic id: transactional id, acks, timeout, number of topics, id, number
#: of partitions, index, two bytes of the size of the records, of which the second may be the first of them.
_ONE = Layout(">bhiB16sBiBB")
_ONE_SIZE = _ONE.size - 1
#: The same parts, before and after a topic's name.
_ONE_HEAD, _ONE_TAIL = Layout(">bhiBB"), Layout(">BiBB")
#: The encoded count of an array with one element.
_ONE_ELEMENT = 2
#: The ends of a partition, a topic and the request, without tagged fields.
_THREE_ENDS = b"\0\0\0"
#: Transactional id, acks, timeout, and the number of topics.
_HEAD = Layout(">bhiB")
_TOPIC_ID_SIZE = 16
#: Index of a partition, the size of its records if that takes two bytes, as most sizes do, and the fields
#: of `_unpack_batch`.
_unpack_partition = Layout(">iBB8xi4xb5xB").unpack_from
_INDEX_SIZE, _TWO_BYTES_SIZE = 4, 2
#: The size is a length + 1; the length in a batch excludes base offset and length.
_SIZE_BEYOND_LENGTH = 1 + LOG_OVERHEAD
#: Of a batch: length, magic, and the low byte of its attributes.
_unpack_batch = Layout(">8xi4xb5xB").unpack_from
#: Size of the frame, correlation id, no tagged fields.
_ANSWER_HEAD = Layout(">iix")
_pack_head = _ANSWER_HEAD.pack
_UNSIZED = 4
#: Index, no error code, base offset, log append time, log start offset, the count of record errors + 1; no message, no
#: tagged fields.
_ANSWER = "i2xqqqB2x"
#: An empty array of record errors.
NO_ERRORS = 1
#: Numbers for each partition in an answer.
NUMBERS = 5
#: No throttle time, no tagged fields.
_ANSWER_END = b"\0\0\0\0\0"
_TOPIC_AND_ANSWER_END = b"\0" + _ANSWER_END

#: A partition's index and its records.
Wanted: TypeAlias = "list[tuple[int, memoryview]]"
#: The bytes that name a topic in requests and answers, the topic's name ("" where it has an id), and its partitions.
Topic: TypeAlias = "tuple[bytes, str, Wanted]"
#: Acks, the bytes that name the topic, its name ("" where it has an id), index of the partition, records.
OneBatch: TypeAlias = "tuple[int, bytes, str, int, memoryview]"


def parse_one(version: int, frame: memoryview, position: int) -> OneBatch | None:
    """Return acks, key, name, index and records of a plain request for a single partition, as `parse` does.

    None: it has several partitions, is not plain, or is malformed.
    """
    name = ""
    try:
        if version < _FIRST_WITH_TOPIC_ID:
            transactional_id, acks, _, topics, size = _ONE_HEAD.unpack_from(frame, position)
            at = position + _ONE_HEAD.size
            if not 0 < size < 128:
                return None
            key = bytes(frame[at - 1 : at + size - 1])
            name = str(key[1:], "utf-8")
            at += size - 1
            partitions, index, length, more = _ONE_TAIL.unpack_from(frame, at)
            at += _ONE_TAIL.size - 1
        else:
            transactional_id, acks, _, topics, key, partitions, index, length, more = _ONE.unpack_from(frame, position)
            at = position + _ONE_SIZE
        if transactional_id or topics != _ONE_ELEMENT or partitions != _ONE_ELEMENT:
            return None
        if length > 127:
            if more > 127:
                length, at = length_rest(frame, at, length)
            else:
                length += (more - 1) << 7
                at += 1
        end = at + length - 1
        batch_length, magic, attributes = _unpack_batch(frame, at)
    except (IndexError, LayoutError, ValueError, ProtocolError):
        return None
    if (
        batch_length + _SIZE_BEYOND_LENGTH != length
        or length <= HEADER_SIZE
        or magic != _MAGIC
        or attributes & TRANSACTIONAL_BIT
        or frame[end:] != _THREE_ENDS
    ):
        return None
    return acks, key, name, index, frame[at:end]


def timeout_of(frame: memoryview, position: int) -> int:
    """Return the timeout in ms of a request that `parse_one` or `parse` has read."""
    return _HEAD.unpack_from(frame, position)[2]  # type: ignore[no-any-return]


def parse(version: int, frame: memoryview, position: int) -> tuple[int, list[Topic]] | None:
    """Return the acks and the topics of the request whose body begins at `position` and ends with the frame.

    The records are views of the frame. None: the request is not plain, or it is malformed.
    """
    by_name = version < _FIRST_WITH_TOPIC_ID
    end = len(frame) - 1
    try:
        transactional_id, acks, _, topic_count = _HEAD.unpack_from(frame, position)
        at = position + _HEAD.size
        if transactional_id or not 1 < topic_count < 128:
            return None
        topics: list[Topic] = []
        for _ in range(topic_count - 1):
            name = ""
            if by_name:
                start = at
                size = frame[at]
                at += 1
                if size > 127:
                    return None
                at += size - 1
                key = bytes(frame[start:at])
                name = str(key[1:], "utf-8")
            else:
                key = bytes(frame[at : at + _TOPIC_ID_SIZE])
                at += _TOPIC_ID_SIZE
            count = frame[at]
            at += 1
            if count > 127:
                count, at = length_rest(frame, at, count)
            if not 1 < count < _MOST_ELEMENTS:
                return None
            partitions: Wanted = []
            for _ in range(count - 1):
                index, size, more, length, magic, attributes = _unpack_partition(frame, at)
                at += _INDEX_SIZE + _TWO_BYTES_SIZE
                if size > 127 >= more:
                    size += (more - 1) << 7
                else:
                    at -= 1
                    if size > 127:
                        size, at = length_rest(frame, at, size)
                    length, magic, attributes = _unpack_batch(frame, at)
                following = at + size
                if (
                    length + _SIZE_BEYOND_LENGTH != size
                    or size <= HEADER_SIZE
                    or magic != _MAGIC
                    or attributes & TRANSACTIONAL_BIT
                    or frame[following - 1]
                ):
                    return None
                partitions.append((index, frame[at : following - 1]))
                at = following
            if frame[at]:
                return None
            at += 1
            topics.append((key, name, partitions))
        if at != end or frame[at]:
            return None
    except (IndexError, LayoutError, ValueError, ProtocolError):
        return None
    return acks, topics


@lru_cache(256)
def partitions_layout(count: int) -> Layout:
    """Return the layout of the answers for `count` partitions of a topic, with NUMBERS for each."""
    return Layout(">" + _ANSWER * count)


def answer(correlation_id: int, topics: list[tuple[bytes, int]], numbers: list[int]) -> bytes:
    """Return the frame of an answer without errors.

    Args:
        topics: the bytes that name a topic, and how many of its partitions are answered.
        numbers: for each partition index, base offset, log append time, log start offset, NO_ERRORS.
    """
    if len(topics) == 1:
        ((key, count),) = topics
        layout = partitions_layout(count)
        body = b"\2" + key + unsigned_varint(count + 1) + layout.pack(*numbers) + _TOPIC_AND_ANSWER_END
        return _pack_head(_ANSWER_HEAD.size - _UNSIZED + len(body), correlation_id) + body
    parts = [unsigned_varint(len(topics) + 1)]
    at = 0
    for key, count in topics:
        following = at + NUMBERS * count
        parts += key, unsigned_varint(count + 1), partitions_layout(count).pack(*numbers[at:following]), b"\0"
        at = following
    parts.append(_ANSWER_END)
    body = b"".join(parts)
    return _pack_head(_ANSWER_HEAD.size - _UNSIZED + len(body), correlation_id) + body


def answer_one(
    correlation_id: int, key: bytes, index: int, base_offset: int, append_time_ms: int, start_offset: int
) -> bytes:
    """Return the frame of an answer about one partition, without an error."""
    layout = _one_layout(len(key))
    return layout.pack(
        layout.size - _UNSIZED,
        correlation_id,
        _ONE_ELEMENT,
        key,
        _ONE_ELEMENT,
        index,
        base_offset,
        append_time_ms,
        start_offset,
        NO_ERRORS,
    )


@lru_cache(128)
def _one_layout(key_size: int) -> Layout:
    """Return the layout of the answer about one partition, by the size of the bytes that name its topic."""
    return Layout(f">iixB{key_size}sB{_ANSWER}6x")
