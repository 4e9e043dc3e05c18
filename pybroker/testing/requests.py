"""Requests of the fixtures, which must not depend on a client library, and never import the engine.

Their versions have as few fields as possible, of fixed width where there is a choice.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import TypeVar

_TIMEOUT_S = 30
#: How long a broker may work on a request, in milliseconds.
TIMEOUT_MS = _TIMEOUT_S * 1000
_CLIENT = "pybroker.testing"

T = TypeVar("T")


class Response:
    """Reads the fields of a response in order."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def number(self, kind: str) -> int:
        """Return the next integer, of a format of `struct`: `b`, `B`, `h`, `i`."""
        (value,) = struct.unpack_from(f">{kind}", self._octets, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(value)

    def text(self) -> str:
        """Return the next string; null is empty."""
        return self._take(self.number("h"))

    def compact_length(self) -> int:
        """Return the next length of a compact string or array, 0 for null: an unsigned varint, less one."""
        value = shift = 0
        while True:
            octet = self.number("B")
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return max(0, value - 1)
            shift += 7

    def compact_text(self) -> str:
        """Return the next compact string; null is empty."""
        return self._take(self.compact_length())

    def skip_tags(self) -> None:
        """Skip tagged fields, of which this package's requests get none."""
        self.number("b")

    def each(self, item: Callable[[], T]) -> list[T]:
        """Return the items of the next array."""
        return [item() for _ in range(self.number("i"))]

    def numbers(self) -> list[int]:
        """Return the next array of int32."""
        return self.each(lambda: self.number("i"))

    def _take(self, length: int) -> str:
        text = self._octets[self._at : self._at + max(0, length)].decode()
        self._at += len(text.encode())
        return text


def ask(address: tuple[str, int], api: int, version: int, body: bytes, *, flexible: bool = False) -> Response:
    """Send one request on a connection of its own, and return the response after its header.

    Args:
        flexible: whether this version has tagged fields.

    Raises OSError if the broker does not respond.
    """
    tags = b"\0" if flexible else b""
    request = struct.pack(">hhi", api, version, 0) + string(_CLIENT) + tags + body
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            head = answer.read(4)
            octets = answer.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""
    if not octets:
        raise ConnectionError("the broker has closed the connection")
    response = Response(octets)
    response.number("i")  # the correlation id
    if flexible:
        response.skip_tags()
    return response


def string(text: str) -> bytes:
    """Encode a string."""
    octets = text.encode()
    return struct.pack(">h", len(octets)) + octets


def compact_string(text: str) -> bytes:
    """Encode a compact string."""
    octets = text.encode()
    return _varint(len(octets) + 1) + octets


def compact_array(items: list[bytes]) -> bytes:
    """Encode a compact array of encoded items."""
    return _varint(len(items) + 1) + b"".join(items)


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
