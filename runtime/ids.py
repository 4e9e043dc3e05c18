"""Ids that nobody else has: of topics, clusters, directories, incarnations."""

from __future__ import annotations

import os


def random_id() -> bytes:
    """A random UUID of 16 bytes, none whose text begins with a hyphen, which command lines take for an option."""
    while True:
        data = bytearray(os.urandom(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        if data[0] >> 2 != 62:  # "-" in URL-safe base64
            return bytes(data)
