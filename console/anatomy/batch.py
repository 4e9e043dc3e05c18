"""The header of a record batch v2 as spans, with the meaning of each number (protocol/records/batch.py)."""

from __future__ import annotations

from console.anatomy.cursor import Cursor
from console.anatomy.span import Span
from console.anatomy.text import time_text
from protocol.primitives import Primitive, int8, int16, int32, int64, uint32
from protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    parse_header,
)
from protocol.records.compression import Codec

#: In the order of the bytes, by Kafka's names.
_FIELDS: tuple[tuple[str, Primitive], ...] = (
    ("baseOffset", int64),
    ("batchLength", int32),
    ("partitionLeaderEpoch", int32),
    ("magic", int8),
    ("crc", uint32),
    ("attributes", int16),
    ("lastOffsetDelta", int32),
    ("baseTimestamp", int64),
    ("maxTimestamp", int64),
    ("producerId", int64),
    ("producerEpoch", int16),
    ("baseSequence", int32),
    ("recordsCount", int32),
)


def header_span(data: bytes, *, crc_is_right: bool) -> Span:
    """Return the first 61 bytes of a batch as a span. Raises CorruptBatch if there are fewer."""
    header = parse_header(data)
    meanings = _meanings(header, crc_is_right)
    cursor = Cursor(data)
    for name, kind in _FIELDS:
        cursor.number(name, kind)
        cursor.set_meaning(meanings[name])
    return Span("RecordBatch header", 0, cursor.position, "struct", parts=cursor.spans)


def _meanings(header: BatchHeader, crc_is_right: bool) -> dict[str, str]:
    horizon = header.delete_horizon is not None
    return {
        "baseOffset": "offset of the first record; the broker writes it when it appends",
        "batchLength": f"bytes from here on: the batch is {header.size_bytes} bytes long",
        "partitionLeaderEpoch": "epoch of the leader that appended it; not part of the checksum",
        "magic": "format of the batch",
        "crc": ("right" if crc_is_right else "WRONG") + ": CRC-32C of all bytes after it",
        "attributes": attributes_text(header.attributes),
        "lastOffsetDelta": f"the last offset is {header.last_offset}",
        "baseTimestamp": time_text(header.base_timestamp)
        + (": tombstones in it may be removed after it" if horizon else ": record timestamps are deltas from it"),
        "maxTimestamp": time_text(header.max_timestamp),
        "producerId": "not an idempotent producer" if header.producer_id < 0 else "idempotent producer",
        "producerEpoch": "none" if header.producer_epoch < 0 else "later epochs fence this one",
        "baseSequence": "none"
        if header.base_sequence < 0
        else f"sequences {header.base_sequence} to {header.last_sequence}: the broker detects duplicates by them",
        "recordsCount": "records that follow, compressed together" if header.codec else "records that follow",
    }


def attributes_text(attributes: int) -> str:
    """Describe the bits of a batch's attributes."""
    codec = attributes & CODEC_MASK
    parts = [
        f"bits 0-2: codec {Codec(codec).name.lower() if codec in {*Codec} else f'{codec}, unknown'}",
        f"bit 3: {'LogAppendTime' if attributes & TIMESTAMP_TYPE_BIT else 'CreateTime'}",
    ]
    if attributes & TRANSACTIONAL_BIT:
        parts.append("bit 4: transactional")
    if attributes & CONTROL_BIT:
        parts.append("bit 5: control")
    if attributes & DELETE_HORIZON_BIT:
        parts.append("bit 6: baseTimestamp is a delete horizon")
    return "; ".join(parts)
