"""Files that other programs write: read as a whole, up to a limit, without blocking.

Only regular files are read: opening a pipe without a writer would block.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping


class UnreadableFile(Exception):
    """Why a file of another program cannot be used, in one line for people."""


def read_whole(path: str, most_bytes: int) -> bytes:
    """Return the whole content of a file. Raises UnreadableFile if it is not a regular file or too large; OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnreadableFile(f"{path} is not a regular file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise UnreadableFile(f"{path} has more than {most_bytes} bytes")
    return data


def reason(error: OSError | UnreadableFile) -> str:
    """Return in one line why a file could not be read."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


def display_names(paths: Iterable[str]) -> Mapping[str, str]:
    """Return the names under which directories are shown: their last part, or the whole path if two share it."""
    named = {path: os.path.basename(path) for path in paths}
    count = Counter(named.values())
    shown = {path: name if name and count[name] == 1 else path for path, name in named.items()}
    return {path: name.encode(errors="backslashreplace").decode() for path, name in shown.items()}
