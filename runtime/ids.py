"""Unique ids of topics, clusters, directories and incarnations."""

from __future__ import annotations

import os


def random_id() -> bytes:
    """Return a random UUID of 16 bytes.

    Its text never begins with a hyphen, which would look like an option in a command.
    """
    while True:
        data = bytearray(os.urandom(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        if data[0] >> 2 != 62:  # "-" in URL-safe base64
            return bytes(data)
