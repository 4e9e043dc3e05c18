"""Frames: every request and response follows its size, an int32.

The functions do no I/O. They find frames in the caller's buffer and return views of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from protocol.error_codes import ProtocolError
from protocol.headers import encode_response_header
from protocol.schema import Api, Chunk, Struct

SIZE_BYTES = 4
_SIZE = struct.Struct(">i")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_WITH_TAGS = struct.Struct(">iix")


# The first bytes of other protocols in the place of the size. The numbers in an error message are hard to interpret.
_OTHERS = dict.fromkeys((b"GET ", b"HEAD", b"POST", b"PUT "), "HTTP")
_TLS_HANDSHAKE = b"\x16\x03"


class FrameTooLarge(ProtocolError):
    """The size of a frame exceeds the limit, or is negative. `size` may be the unsigned value of its four bytes."""

    def __init__(self, size: int, limit: int) -> None:
        front = (size & 0xFFFFFFFF).to_bytes(SIZE_BYTES, "big")
        (size,) = _SIZE.unpack(front)
        other = "TLS" if front.startswith(_TLS_HANDSHAKE) else _OTHERS.get(front)
        guess = f"; it begins as {other} does" if other else ""
        super().__init__(f"a frame of {size} bytes, where 0 to {limit} are allowed{guess}")
        self.size = size
        self.limit = limit


def frame_size(buffer: bytes | bytearray | memoryview, position: int, end: int, limit: int) -> int | None:
    """Return the size of the frame at `position`, or None if fewer than four bytes are available.

    Raises ProtocolError for a negative size, and FrameTooLarge beyond `limit` (socket.request.max.bytes).
    """
    if end - position < SIZE_BYTES:
        return None
    size: int
    (size,) = _SIZE.unpack_from(buffer, position)
    if size < 0:
        raise ProtocolError(f"a frame of {size} bytes")
    if size > limit:
        raise FrameTooLarge(size, limit)
    return size


def next_frame(view: memoryview, position: int, end: int, limit: int) -> tuple[memoryview, int] | None:
    """Return the frame at `position` as a view without its size, and the position after it.

    `end` is the end of the received bytes. Returns None if the frame is incomplete. Raises as `frame_size` does.
    """
    size = frame_size(view, position, end, limit)
    if size is None:
        return None
    start = position + SIZE_BYTES
    stop = start + size
    return (view[start:stop], stop) if stop <= end else None


def encode_response(api: Api, version: int, correlation_id: int, response: Struct) -> list[Chunk]:
    """Return a response frame in pieces: size, header and body. Records are not copied. Raises EncodeError."""
    return response_encoder(api, version)(correlation_id, response)


def response_encoder(api: Api, version: int) -> Callable[[int, Struct], list[Chunk]]:
    """Return the function (correlation id, response) -> pieces for one API and version. See `encode_response`."""
    encode = api.response.encoder(version)
    tagged = api.response_header_version(version)
    pack_head = (_WITH_TAGS if tagged else _SIZE_AND_CORRELATION_ID).pack
    header_size = 4 + tagged

    def encode_frame(correlation_id: int, response: Struct) -> list[Chunk]:
        chunks = encode(response)
        first = chunks[0] if chunks else b""
        if len(chunks) < 2:
            size = header_size + len(first)
        else:
            size = header_size
            for chunk in chunks:
                size += len(chunk)
        if type(first) is bytes and len(first) < 4096:  # copying a few bytes costs less than sending one more piece
            chunks[:1] = (pack_head(size, correlation_id) + first,)
        else:
            chunks.insert(0, pack_head(size, correlation_id))
        return chunks

    return encode_frame


def frame(*chunks: bytes) -> bytes:
    """Return one frame with these bytes."""
    body = b"".join(chunks)
    return _SIZE.pack(len(body)) + body


__all__ = [
    "SIZE_BYTES",
    "FrameTooLarge",
    "encode_response",
    "encode_response_header",
    "frame",
    "frame_size",
    "next_frame",
    "response_encoder",
]
