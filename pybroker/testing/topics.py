"""CreateTopics, the one request that the fixtures send. They must not depend on a client library.

It is version 2, which has fields of fixed width and no tags.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

_CREATE_TOPICS, _VERSION = 19, 2
_TIMEOUT_S = 30
_ANY_REPLICATION = 1


def create_topic(address: tuple[str, int], name: str, partitions: int, config: Mapping[str, str]) -> str | None:
    """Create a topic. Return the broker's error, or None. Raises OSError if the broker does not respond."""
    settings = b"".join(_string(key) + _string(value) for key, value in config.items())
    request = b"".join(
        (
            struct.pack(">hhi", _CREATE_TOPICS, _VERSION, 0),
            _string("pybroker.testing"),
            struct.pack(">i", 1),
            _string(name),
            struct.pack(">ihi", partitions, _ANY_REPLICATION, 0),
            struct.pack(">i", len(config)),
            settings,
            struct.pack(">ib", _TIMEOUT_S * 1000, False),
        )
    )
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            return _problem(answer.read(size), name)


def _problem(answer: bytes, name: str) -> str | None:
    """Parse a response with one topic: correlation id, throttle time, count, name, error code, message."""
    start = 4 + 4 + 4 + len(_string(name))
    code, length = struct.unpack_from(">hh", answer, start)
    if code == 0:
        return None
    return answer[start + 4 : start + 4 + length].decode() if length >= 0 else f"error {code}"


def _string(text: str) -> bytes:
    octets = text.encode()
    return struct.pack(">h", len(octets)) + octets
