"""Batches with one error in the header and valid checksums, so that a broker can only notice this error.

docs/decisions/header-validation.md lists the one that is left out: a largest timestamp that no record has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from protocol.records.batch import CRC_START
from protocol.records.crc32c import crc32c

_MAGIC, _SUM, _ATTRIBUTES, _LAST_OFFSET_DELTA = 16, 17, 21, 23
_PRODUCER_ID, _SEQUENCE, _COUNT = 43, 53, 57


def _patched(batch: bytes, position: int, layout: str, change: Callable[[int], int]) -> bytes:
    data = bytearray(batch)
    (value,) = struct.unpack_from(layout, data, position)
    struct.pack_into(layout, data, position, change(value))
    if position >= CRC_START:
        struct.pack_into(">I", data, _SUM, crc32c(bytes(data[CRC_START:])))
    return bytes(data)


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "sum": lambda batch: _patched(batch, _SUM, ">I", lambda value: value ^ 1),
    "magic 1": lambda batch: _patched(batch, _MAGIC, ">b", lambda _: 1),
    "magic 3": lambda batch: _patched(batch, _MAGIC, ">b", lambda _: 3),
    "codec 5": lambda batch: _patched(batch, _ATTRIBUTES, ">h", lambda value: (value & ~7) | 5),
    "control": lambda batch: _patched(batch, _ATTRIBUTES, ">h", lambda value: value | 0x20),
    "time of the broker": lambda batch: _patched(batch, _ATTRIBUTES, ">h", lambda value: value | 0x08),
    "delete horizon": lambda batch: _patched(batch, _ATTRIBUTES, ">h", lambda value: value | 0x40),
    "one record less": lambda batch: _patched(batch, _COUNT, ">i", lambda value: value - 1),
    "no records": lambda batch: _patched(batch, _COUNT, ">i", lambda _: 0),
    "one offset more": lambda batch: _patched(batch, _LAST_OFFSET_DELTA, ">i", lambda value: value + 1),
    "offsets back": lambda batch: _patched(batch, _LAST_OFFSET_DELTA, ">i", lambda _: -1),
    "base offset": lambda batch: _patched(batch, 0, ">q", lambda _: 5),
    "leader epoch": lambda batch: _patched(batch, 12, ">i", lambda _: 7),
    "no sequence": lambda batch: _patched(
        _patched(batch, _PRODUCER_ID, ">q", lambda _: 9), _SEQUENCE, ">i", lambda _: -1
    ),
    "length 0": lambda batch: _patched(batch, 8, ">i", lambda _: 0),
    "length over": lambda batch: _patched(batch, 8, ">i", lambda value: value + 1),
    "cut": lambda batch: batch[:-1],
    "cut in the header": lambda batch: batch[:50],
    "nothing": lambda _: b"",
    "more behind": lambda batch: batch + b"\0\0\0",
    "twice": lambda batch: batch + batch,
}
