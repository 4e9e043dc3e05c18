"""AlterPartitionReassignments v0 and ElectLeaders v1: make another replica the preferred leader, and elect it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pybroker.testing.requests import TIMEOUT_MS, Response, ask, compact_array, compact_string, string

_REASSIGN, _REASSIGN_VERSION = 45, 0
_ELECT, _ELECT_VERSION = 43, 1
_PREFERRED = 0
_NOT_NEEDED = 84  # the preferred replica leads already


def order_replicas(address: tuple[str, int], topic: str, partition: int, replicas: Sequence[int]) -> str | None:
    """Give a partition's replicas another order. Return the error, or None. Raises OSError without a response."""
    ids = compact_array([struct.pack(">i", each) for each in replicas])
    asked = compact_array([struct.pack(">i", partition) + ids + b"\0"])
    topics = compact_array([compact_string(topic) + asked + b"\0"])
    body = struct.pack(">i", TIMEOUT_MS) + topics + b"\0"
    response = ask(address, _REASSIGN, _REASSIGN_VERSION, body, flexible=True)
    response.number("i")  # the throttle time
    code, message = response.number("h"), response.compact_text()
    if code == 0 and response.compact_length():
        response.compact_text()
        response.compact_length()
        response.number("i")
        code, message = response.number("h"), response.compact_text()
    return (message or f"error {code}") if code else None


def elect_preferred(address: tuple[str, int], topic: str, partition: int) -> str | None:
    """Elect a partition's first replica. Return the error, or None. Raises OSError without a response."""
    body = struct.pack(">bi", _PREFERRED, 1) + string(topic) + struct.pack(">iii", 1, partition, TIMEOUT_MS)
    response = ask(address, _ELECT, _ELECT_VERSION, body)
    response.number("i")  # the throttle time
    code = response.number("h")
    results = [each for topic_results in response.each(lambda: _results(response)) for each in topic_results]
    code, message = next(((code, text) for code, text in results if code), (code, ""))
    return None if code in (0, _NOT_NEEDED) else message or f"error {code}"


def _results(response: Response) -> list[tuple[int, str]]:
    response.text()
    return response.each(lambda: (response.number("i"), response.number("h"), response.text())[1:])
