"""Headers of requests: keys and versions that do not exist, and wrong lengths."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from protocol.framing import frame
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.metadata import METADATA
from protocol.registry import API_BY_KEY

_UNKNOWN_KEYS = (-1, -32768, 93, 94, 999, 32767)


def bad_headers() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    for key in _UNKNOWN_KEYS:
        yield f"API key {key}", frame(struct.pack(">hhih", key, 0, 7, -1))
    for key in API_BY_KEY:
        api = API_BY_KEY[key]
        if "broker" not in api.listeners:
            yield f"{api.name}, which is not for clients", frame(struct.pack(">hhih", key, api.versions.min, 7, -1))
            continue
        if not api.current:
            yield f"{api.name}, which is retired", frame(struct.pack(">hhih", key, 0, 7, -1))
            continue
        for version in sorted({-32768, -1, api.current.min - 1, api.current.max + 1, 32767}):
            yield f"{api.name} v{version}", frame(struct.pack(">hhih", key, version, 7, -1), bytes(30))
    yield from _client_ids()
    yield from _tags()


def _client_ids() -> Iterator[tuple[str, bytes]]:
    """ApiVersions v0 has a header v1 and no body."""
    head = struct.pack(">hhi", API_VERSIONS.key, 0, 7)
    for size in (-2, -32768, 1, 2, 32767):
        yield f"client id of {size} bytes, none there", frame(head, struct.pack(">h", size))
    yield "client id cut short", frame(head, struct.pack(">h", 5), b"test")
    yield "client id of one byte of two", frame(head, b"\0")
    yield "no client id at all", frame(head)
    yield "client id null", frame(head, struct.pack(">h", -1))
    yield "client id that is not UTF-8", frame(head, struct.pack(">h", 4), b"\xff\xfe\xc3\x28")
    yield "client id with a NUL", frame(head, struct.pack(">h", 3), b"a\0b")
    yield "client id of 32767 bytes", frame(head, struct.pack(">h", 32767), b"x" * 32767)
    yield "bytes after the request", frame(head, struct.pack(">h", -1), b"left over")


def _tags() -> Iterator[tuple[str, bytes]]:
    """Metadata v12 has a header v2, with tagged fields: count, then (tag, size, bytes) of each."""
    head = struct.pack(">hhih", METADATA.key, 12, 7, -1)
    body = METADATA.request.encode(12, METADATA.request(topics=[]))
    tags = {
        "none": b"\0",
        "one unknown": b"\1\5\2ab",
        "two unknown": b"\2\5\2ab\6\0",
        "twice the same": b"\2\5\1a\5\1b",
        "descending": b"\2\6\1a\5\1b",
        "more than there are": b"\2\5\2ab",
        "beyond the frame": b"\1\5\x7f" + b"ab",
        "count of five bytes": b"\x80\x80\x80\x80\x00",
        "count of 2147483647": b"\xff\xff\xff\xff\x07",
        "count of -1": b"\xff\xff\xff\xff\x0f",
        "count that never ends": b"\xff\xff\xff\xff\xff\xff\xff",
        "size of -1": b"\1\5\xff\xff\xff\xff\x0f",
        "size of 2147483647": b"\1\5\xff\xff\xff\xff\x07",
        "tag of -1": b"\1\xff\xff\xff\xff\x0f\0",
    }
    for name, data in tags.items():
        yield f"header tags: {name}", frame(head, data, body)
    yield "header tags: missing", frame(head)
