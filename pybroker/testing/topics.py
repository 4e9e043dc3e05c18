"""CreateTopics, the one request that a fixture needs before any client library of the user's choice is there.

Version 2, which every broker since 0.11 answers: plain fields of fixed width, without tags.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

_CREATE_TOPICS, _VERSION = 19, 2
_TIMEOUT_S = 30
_ANY_REPLICATION = 1


def create_topic(address: tuple[str, int], name: str, partitions: int, config: Mapping[str, str]) -> str | None:
    """Make a topic; return what the broker has against it, or None. Raises OSError where nobody answers."""
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
    """What the answer's only topic says: correlation id, throttle time, a count, name, error code, message."""
    start = 4 + 4 + 4 + len(_string(name))
    code, length = struct.unpack_from(">hh", answer, start)
    if code == 0:
        return None
    return answer[start + 4 : start + 4 + length].decode() if length >= 0 else f"error {code}"


def _string(text: str) -> bytes:
    octets = text.encode()
    return struct.pack(">h", len(octets)) + octets
