"""The key for the salts of unknown users: a secret of the data directory, readable only by its owner.

Public values, such as ids of directories, are no substitute: with the key, a client can distinguish these salts from
stored ones. The key survives restarts, since a changing salt would reveal the same.
"""

from __future__ import annotations

import os
from secrets import token_bytes

KEY_FILE = "pybroker.scram.key"
_KEY_BYTES = 32
_OWNER_ALONE = 0o600


def scram_key(directory: str) -> bytes:
    """Return the key of a directory; create it if it is missing or incomplete. Raises OSError."""
    path = os.path.join(directory, KEY_FILE)
    try:
        with open(path, "rb") as file:
            key = file.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        key = b""
    if len(key) != _KEY_BYTES:
        key = token_bytes(_KEY_BYTES)
        _write(path, key)
    return key


def _write(path: str, key: bytes) -> None:
    unfinished = f"{path}.tmp"
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ALONE), "wb") as file:
        os.fchmod(file.fileno(), _OWNER_ALONE)  # an old file may have been readable by others
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
