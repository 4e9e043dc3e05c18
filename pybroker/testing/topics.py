"""CreateTopics v2."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pybroker.testing.requests import TIMEOUT_MS, ask, string

_CREATE_TOPICS, _VERSION = 19, 2


def create_topic(
    address: tuple[str, int], name: str, partitions: int, config: Mapping[str, str], replication: int = 1
) -> str | None:
    """Create a topic. Return the broker's error, or None. Raises OSError if the broker does not respond."""
    body = b"".join(
        (
            struct.pack(">i", 1),
            string(name),
            struct.pack(">ihi", partitions, replication, 0),
            struct.pack(">i", len(config)),
            *(string(key) + string(value) for key, value in config.items()),
            struct.pack(">ib", TIMEOUT_MS, False),
        )
    )
    response = ask(address, _CREATE_TOPICS, _VERSION, body)
    response.number("i")  # the throttle time
    response.number("i")  # one topic
    response.text()
    code, message = response.number("h"), response.text()
    return (message or f"error {code}") if code else None
