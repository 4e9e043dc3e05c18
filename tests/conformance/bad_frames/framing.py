"""Sizes in front of frames that do not match the frames."""

from __future__ import annotations

import struct
from collections.abc import Iterator

REQUEST = bytes.fromhex("00120000000000070000")  # ApiVersions v0, correlation id 7, client id ""

_LIMIT = 104_857_600  # socket.request.max.bytes


def bad_framing() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    for size in (-1, -2, -(2**31), 0, 1, 2, 3, 4, 7, 8, 9, len(REQUEST) - 1, _LIMIT + 1, 2**31 - 1):
        yield f"size {size}", struct.pack(">i", size) + REQUEST
    for size in (len(REQUEST) + 1, 1000, 70_000, 10_000_000, _LIMIT):
        yield f"size {size}, of which {len(REQUEST)} bytes arrive", struct.pack(">i", size) + REQUEST
    yield "three bytes of a size", b"\0\0\0"
    yield "a sound request, then size -1", _framed(REQUEST) + struct.pack(">i", -1)
    yield "a sound request, then size 2147483647", _framed(REQUEST) + struct.pack(">i", 2**31 - 1)
    yield "a sound request, then half of one", _framed(REQUEST) + _framed(REQUEST)[:9]
    yield "a thousand zeros", bytes(1000)
    yield "a thousand times 0xff", b"\xff" * 1000
    yield "an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield "a TLS hello", bytes.fromhex("16030100c8010000c40303") + bytes(194)


def _framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request
