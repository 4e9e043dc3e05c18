"""Bodies of requests: cut off, with wrong lengths, with nulls where none is allowed."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.fetch import FETCH
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from protocol.schema import Api

_INT32_LIES = {"-1": -1, "-2": -2, "2147483647": 2**31 - 1, "-2147483648": -(2**31), "1000000": 1_000_000}
_VARINT_LIES = {
    "0 (null)": b"\0",
    "of 2147483646": b"\xff\xff\xff\xff\x07",
    "of -2": b"\xff\xff\xff\xff\x0f",
    "of 1000000": b"\xc1\x84\x3d",
    "that never ends": b"\xff\xff\xff\xff\xff\xff\xff\xff",
    "in five bytes": b"\x81\x80\x80\x80\x00",
    "in five bytes, with more than 32 bits": b"\x81\x80\x80\x80\x70",
}


def bad_bodies() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    yield from _arrays()
    yield from _strings()
    yield from _values()
    yield from _empty_bodies()


def _arrays() -> Iterator[tuple[str, bytes]]:
    """Yield wrong arrays: the first field of these requests, or the first after fixed fields."""
    for name, count in _INT32_LIES.items():
        size = struct.pack(">i", count)
        yield f"Metadata v0: array of {name}", _request(METADATA, 0, size)
        yield f"Metadata v1: array of {name}", _request(METADATA, 1, size)
        yield f"Metadata v4: array of {name}", _request(METADATA, 4, size + b"\0")
        yield f"Produce v3: array of {name}", _request(PRODUCE, 3, struct.pack(">hhi", -1, -1, 5000) + size)
        yield f"ListOffsets v1: array of {name}", _request(LIST_OFFSETS, 1, struct.pack(">i", -1) + size)
        yield f"CreateTopics v2: array of {name}", _request(CREATE_TOPICS, 2, size + struct.pack(">i", 1000) + b"\1")
        fixed = struct.pack(">iiiib", -1, 0, 0, 1000, 0)
        yield f"Fetch v4: array of {name}", _request(FETCH, 4, fixed + size)
    for name, varint in _VARINT_LIES.items():
        yield f"Metadata v12: array {name}", _request(METADATA, 12, varint + b"\0\0\0")
        yield f"Produce v9: array {name}", _request(PRODUCE, 9, b"\0" + struct.pack(">hi", -1, 5000) + varint + b"\0")
        yield f"CreateTopics v5: array {name}", _request(CREATE_TOPICS, 5, varint + struct.pack(">i", 1000) + b"\1\0")


def _strings() -> Iterator[tuple[str, bytes]]:
    """Yield wrong strings: a topic's name in Metadata, and the client's in ApiVersions."""
    for size in (-1, -2, -32768, 32767, 3):
        yield f"Metadata v1: name of {size} bytes, two there", _metadata(struct.pack(">h", size) + b"ab")
    yield "Metadata v1: name that is not UTF-8", _metadata(struct.pack(">h", 4) + b"\xff\xfe\xc3\x28")
    yield "Metadata v1: name with a NUL", _metadata(struct.pack(">h", 3) + b"a\0b")
    yield "Metadata v1: empty name", _metadata(struct.pack(">h", 0))
    for name, varint in _VARINT_LIES.items():
        yield f"ApiVersions v3: name {name}", _request(API_VERSIONS, 3, varint + b"ab\2v\0")
    texts = {"empty": "", "a space": " ", "an umlaut": "\u00fc", "a dash in front": "-a", "a dash": "a-a"}
    for name, text in texts.items():
        yield f"ApiVersions v3: client's name {name}", _api_versions(text, "1")
    yield "ApiVersions v3: client's version empty", _api_versions("a", "")


def _metadata(name: bytes) -> bytes:
    return _request(METADATA, 1, struct.pack(">i", 1) + name)


def _api_versions(name: str, version: str) -> bytes:
    request = API_VERSIONS.request(client_software_name=name, client_software_version=version)
    return _request(API_VERSIONS, 3, API_VERSIONS.request.encode(3, request))


def _values() -> Iterator[tuple[str, bytes]]:
    """Yield bytes that are no value of their type, and tags in a body."""
    topics = METADATA.request(topics=[MetadataRequestTopic(name="bad-frames")])
    sound = METADATA.request.encode(9, topics)
    for boolean in (1, 2, 127, 255):
        yield f"Metadata v4: boolean {boolean}", _request(METADATA, 4, struct.pack(">iB", 0, boolean))
    for name, tags in {
        "unknown": b"\1\5\2ab",
        "more than there are": b"\2\5\2ab",
        "beyond the frame": b"\1\5\x20ab",
        "count of -1": b"\xff\xff\xff\xff\x0f",
        "size of -1": b"\1\5\xff\xff\xff\xff\x0f",
        "missing": b"",
    }.items():
        yield f"Metadata v9: tags {name}", _request(METADATA, 9, sound[:-1] + tags)
    fetch = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1) + b"\1\1\1"
    for name, tags in {
        "of its size": b"\1\0\3\3ab",
        "shorter than stated": b"\1\0\5\2a\0\0\0",
        "longer than stated": b"\1\0\2\3ab",
        "stated to reach beyond the frame": b"\1\0\x7f\2a",
        "beyond the frame": b"\1\0\2\x7fab",
        "null": b"\1\0\1\0",
    }.items():
        yield f"Fetch v12: a tagged string {name}", _request(FETCH, 12, fetch + tags)
    yield "Metadata v9: bytes after the request", _request(METADATA, 9, sound + b"\0\1\2")


def _empty_bodies() -> Iterator[tuple[str, bytes]]:
    """Yield every version of every API for clients with an empty body, and with a single byte."""
    for key in API_BY_KEY:
        api = API_BY_KEY[key]
        if "broker" in api.listeners:
            for version in range(api.current.min, api.current.max + 1):
                yield f"{api.name} v{version}: no body", _request(api, version, b"")
                yield f"{api.name} v{version}: a body of one byte", _request(api, version, b"\x7f")


def _request(api: Api, version: int, body: bytes) -> bytes:
    return frame(encode_request_header(api, version, 7, "bad-frames"), body)
