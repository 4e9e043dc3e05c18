"""Batches with valid headers and checksums whose records are invalid: a broker that reads only headers cannot notice.

Record: varint length, attributes, varlong timestamp delta, varint offset delta, varint key size, key, varint value
size, value, varint header count, headers (varint key size, key, varint value size, value).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from protocol.records.builder import BatchBuilder
from protocol.records.compression import compress
from tests.conformance.bad_frames.batches import batch, changed, produce

_NOW = int(time.time() * 1000)
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_HEADER = 61

_SOUND = bytes.fromhex("10 00 00 00 02 6b 02 76 00")  # k = v, no headers; offset delta 0


def _two_hours_ahead() -> int:
    return int(time.time() * 1000) + 7_200_000


def lying_batches() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    for name, records, count in _records():
        yield f"records: {name}", produce(_batch(records, count))
    for codec, text in _CODECS.items():
        for name, records, count in _records():
            yield f"{text}, records: {name}", produce(_batch(compress(codec, records), count, attributes=codec))
        yield from _compressed(codec, text)
    sound = batch()
    base = int.from_bytes(sound[27:35], "big")
    yield "max timestamp below that of the records", produce(changed(sound, max_timestamp=base))
    yield "max timestamp above that of the records", produce(changed(sound, max_timestamp=base + 1000))
    for value in (-1, -(2**63), 2**63 - 1):
        yield f"max timestamp {value}", produce(changed(sound, max_timestamp=value))
    yield "max timestamp two hours ahead", produce(changed(sound, max_timestamp=_two_hours_ahead()))
    yield "base timestamp 9223372036854775807", produce(changed(sound, base_timestamp=2**63 - 1))
    yield "count and last offset delta of one less", produce(changed(sound, count=2, last_offset_delta=1))
    yield "count and last offset delta of one more", produce(changed(sound, count=4, last_offset_delta=3))
    for codec, text in _CODECS.items():
        packed = batch(codec)
        yield f"{text}: max timestamp above that of the records", produce(changed(packed, max_timestamp=base + 1000))
        yield f"{text}: max timestamp two hours ahead", produce(changed(packed, max_timestamp=_two_hours_ahead()))
        yield f"{text}: count and last offset delta of one less", produce(changed(packed, count=2, last_offset_delta=1))
        yield f"{text}: count and last offset delta of one more", produce(changed(packed, count=4, last_offset_delta=3))


def _records() -> Iterator[tuple[str, bytes, int]]:
    """Yield (name, bytes behind the header, count in the header)."""
    yield "one fewer than counted", _SOUND, 2
    yield "one more than counted", _SOUND + _at(1), 1
    yield "none", b"", 1
    yield "offsets 0, 0", _SOUND * 2, 2
    yield "offsets 1, 0", _at(1) + _SOUND, 2
    yield "offsets 0, 2", _SOUND + _at(2), 2
    yield "offset -1", _at(-1), 1
    yield "a byte behind the last", _SOUND + b"\0", 1
    yield "a hundred bytes behind the last", _SOUND + bytes(100), 1
    yield "cut by a byte", _SOUND[:-1], 1
    yield "length one too short", b"\x0e" + _SOUND[1:], 1
    yield "length one too long", b"\x12" + _SOUND[1:], 1
    yield "length of -1", b"\x01" + _SOUND[1:], 1
    yield "length of 0", b"\x00" + _SOUND[1:], 1
    yield "length of 2147483647", b"\xfe\xff\xff\xff\x0f" + _SOUND[1:], 1
    yield "length that never ends", b"\xff" * 12, 1
    yield "zeros", bytes(30), 3
    yield "0xff", b"\xff" * 30, 3
    yield "key of -2 bytes", _SOUND[:4] + b"\x03" + _SOUND[5:], 1
    yield "key of a thousand bytes", _sized(_SOUND[1:4] + b"\xd0\x0f" + _SOUND[5:]), 1
    yield "value of -2 bytes", _SOUND[:6] + b"\x03" + _SOUND[7:], 1
    yield "value of a thousand bytes", _sized(_SOUND[1:6] + b"\xd0\x0f" + _SOUND[7:]), 1
    yield "minus one headers", _SOUND[:-1] + b"\x01", 1
    yield "a thousand headers", _sized(_SOUND[1:-1] + b"\xd0\x0f"), 1
    yield "a header without a key", _sized(_SOUND[1:-1] + b"\x02\x01\x01"), 1
    yield "a header whose key is not UTF-8", _sized(_SOUND[1:-1] + b"\x02\x04\xff\xfe\x01"), 1
    yield "a header's value of a thousand bytes", _sized(_SOUND[1:-1] + b"\x02\x02h\xd0\x0f"), 1
    yield "attributes 0xff", _SOUND[:1] + b"\xff" + _SOUND[2:], 1
    yield "a day ahead", _sized(b"\x00" + _varint(86_400_000) + _SOUND[3:]), 1
    yield "at the end of time", _sized(b"\x00" + _varint(2**63 - 1 - _NOW) + _SOUND[3:]), 1


def _compressed(codec: int, text: str) -> Iterator[tuple[str, bytes]]:
    """Yield invalid compressed data, and data that decompresses to too much."""
    sound = compress(codec, _SOUND)
    for name, data in {
        "nothing": b"",
        "zeros": bytes(40),
        "0xff": b"\xff" * 40,
        "not compressed at all": _SOUND,
        "cut in half": sound[: len(sound) // 2],
        "cut by a byte": sound[:-1],
        "a byte changed": sound[:-3] + bytes([sound[-3] ^ 0x55]) + sound[-2:],
        "a byte behind it": sound + b"\0",
        "twice": sound + sound,
    }.items():
        yield f"{text}: {name}", produce(_batch(data, 1, attributes=codec))
    bomb = compress(codec, _sized(_SOUND[1:6] + _varint(300_000_000) + bytes(1 << 20)))
    yield f"{text}: a value of 300 MB, of which 1 MiB is there", produce(_batch(bomb, 1, attributes=codec))


def _batch(records: bytes, count: int, *, attributes: int = 0) -> bytes:
    builder = BatchBuilder()
    builder.append(_NOW, b"k", b"v", ())
    data = bytearray(builder.build()[:_HEADER] + records)
    return changed(data, length=len(data) - 12, attributes=attributes, count=count, last_offset_delta=count - 1)


def _at(offset_delta: int) -> bytes:
    return _SOUND[:3] + _varint(offset_delta) + _SOUND[4:]


def _sized(record: bytes) -> bytes:
    return _varint(len(record)) + record


def _varint(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
