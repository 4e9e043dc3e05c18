"""The key that salts are made with for users who are not there: a secret of the directory's own, readable by its owner.

Nothing that is told to anybody will do, as ids of directories are: who has the key can tell such a salt from a stored
one. It stays the same over restarts, since one that changes tells as much.
"""

from __future__ import annotations

import os
from secrets import token_bytes

KEY_FILE = "pybroker.scram.key"
_KEY_BYTES = 32
_OWNER_ALONE = 0o600


def scram_key(directory: str) -> bytes:
    """The key of a directory, made if there is none yet, or none that is whole. Raises OSError."""
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
        os.fchmod(file.fileno(), _OWNER_ALONE)  # one that was left behind may have been another's to read
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
