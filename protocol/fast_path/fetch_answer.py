"""Frames of Fetch responses without errors for read_uncommitted readers, encoded without intermediate objects.

A frame equals that of `protocol.fetch_answer.fetch_encoder` for the same response.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout
from typing import TypeAlias

from protocol.fetch_answer import COMPACT_DATA, COMPACT_HEAD, FIRST_FLEXIBLE, SIZE_BYTES
from protocol.primitives import unsigned_varint
from protocol.schema import Chunk

_NULL = -1
#: Index, high watermark, last stable offset, log start offset, records and their size.
PlainRow: TypeAlias = "tuple[int, int, int, int, Chunk, int]"
# The fields of COMPACT_DATA, and the length of the records as a varint of one or two bytes.
_COMPACT_DATA_ONE, _COMPACT_DATA_TWO = Layout(">ihqqqBiB").pack, Layout(">ihqqqBiBB").pack
_ONE_BYTE, _TWO_BYTES = 0x7F, 0x3FFF
_NO_TAGS = b"\0"


def answer_plain(
    correlation_id: int, session_id: int, topics: list[tuple[bytes, list[PlainRow]]]
) -> bytes | list[Chunk]:
    """Return the frame of a successful answer by topic id, equal to that of `fetch_encoder` (v13-v18).

    It is one piece if no records are in files. `topics`: ids and partitions; a topic without partitions is left out.
    """
    parts: list[bytes] = [unsigned_varint(sum(1 for _, rows in topics if rows) + 1)]
    chunks: list[Chunk] = []
    sent = 0
    for topic_id, rows in topics:
        if not rows:
            continue
        parts += topic_id, unsigned_varint(len(rows) + 1)
        for index, high_watermark, last_stable_offset, log_start_offset, records, size in rows:
            length = size + 1
            if length <= _ONE_BYTE:
                data = _COMPACT_DATA_ONE(index, 0, high_watermark, last_stable_offset, log_start_offset, 0, -1, length)
            elif length <= _TWO_BYTES:
                first, second = length & 0x7F | 0x80, length >> 7
                data = _COMPACT_DATA_TWO(
                    index, 0, high_watermark, last_stable_offset, log_start_offset, 0, -1, first, second
                )
            else:
                data = COMPACT_DATA(index, 0, high_watermark, last_stable_offset, log_start_offset, 0, -1)
                data += unsigned_varint(length)
            if type(records) is bytes:
                parts += data, records, _NO_TAGS
            else:
                parts.append(data)
                before = b"".join(parts)
                chunks += before, records
                sent += len(before) + size
                parts = [_NO_TAGS]
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    end = b"".join(parts)
    front = COMPACT_HEAD.pack(COMPACT_HEAD.size - SIZE_BYTES + sent + len(end), correlation_id, 0, 0, session_id)
    if not chunks:
        return front + end
    chunks[0] = front + chunks[0]  # type: ignore[operator]
    chunks.append(end)
    return chunks


# Size, correlation id, no tagged fields, no throttle time, error code, session id, one topic; then the bytes that name
# it, and: one partition, the fields of COMPACT_DATA, and the size of the records.
_ONE_FRONT, _ONE_BACK = "iix4xhiB", "sBihqqqBi"
_ONE_END = b"\0\0\0"
# The same before v12; the length precedes the bytes that name the topic.
_PLAIN_FRONT, _PLAIN_BACK = "ii4xhii", "siihqqqiii"
_NOTHING = Layout(">iix4xhiBx")
_PLAIN_NOTHING = Layout(">ii4xhii")


@lru_cache(512)
def _one_layout(front: str, name_size: int, back: str) -> Layout:
    return Layout(f">{front}{name_size}{back}")


def answer_one(
    version: int,
    correlation_id: int,
    session_id: int,
    key: bytes,
    index: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    records: Chunk,
) -> list[Chunk]:
    """Return the frame of a successful answer for one partition, to a read_uncommitted consumer (v11-v18).

    It equals that of `fetch_encoder`, without intermediate objects. `key` names the topic in this version: its id, or
    its name after its length. The frame is one piece if the records are bytes.
    """
    size = len(records)
    if version >= FIRST_FLEXIBLE:
        layout = _one_layout(_ONE_FRONT, len(key), _ONE_BACK)
        length = unsigned_varint(size + 1)
        head = layout.pack(
            layout.size - 1 + len(length) + size,  # without the size itself, with the three ends
            correlation_id,
            0,
            session_id,
            2,
            key,
            2,
            index,
            0,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            0,
            -1,
        )
        if type(records) is bytes:
            return [head + length + records + _ONE_END]
        return [head + length, records, _ONE_END]
    layout = _one_layout(_PLAIN_FRONT, len(key), _PLAIN_BACK)
    total = layout.size - SIZE_BYTES + size
    offsets = high_watermark, last_stable_offset, log_start_offset
    head = layout.pack(total, correlation_id, 0, session_id, 1, key, 1, index, 0, *offsets, _NULL, -1, size)
    return [head + records] if type(records) is bytes else [head, records]


def answer_nothing(version: int, correlation_id: int, session_id: int) -> list[Chunk]:
    """Return the frame of the empty answer in a session (v11-v18)."""
    if version < FIRST_FLEXIBLE:
        return [_PLAIN_NOTHING.pack(_PLAIN_NOTHING.size - SIZE_BYTES, correlation_id, 0, session_id, 0)]
    return [_NOTHING.pack(_NOTHING.size - SIZE_BYTES, correlation_id, 0, session_id, 1)]
