"""Ids of 16 bytes as Kafka writes them: 22 characters of URL-safe base64 without padding."""

from __future__ import annotations

import base64


def id_text(data: bytes) -> str:
    """Return the text of an id."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """Return the 16 bytes of an id. Raises ValueError."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != 16:
        raise ValueError(f"{text} is not an id of 16 bytes")
    return data
