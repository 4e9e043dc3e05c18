"""Files that other programs write while the broker reads them: whole, up to a limit, and never waited for.

What is no regular file is not opened for long: a pipe that nobody writes to would keep its reader.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping


class UnreadableFile(Exception):
    """Why a file of another program does not say what it should, in one line for people."""


def read_whole(path: str, most_bytes: int) -> bytes:
    """All of a file. Errors: UnreadableFile for what is no file, or a larger one; OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnreadableFile(f"{path} is no file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise UnreadableFile(f"{path} has more than {most_bytes} bytes")
    return data


def reason(error: OSError | UnreadableFile) -> str:
    """Why a file could not be read, in one line."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


def shown_names(paths: Iterable[str]) -> Mapping[str, str]:
    """What directories are called by people: their own names, or all of the path where two have the same."""
    named = {path: os.path.basename(path) for path in paths}
    count = Counter(named.values())
    shown = {path: name if name and count[name] == 1 else path for path, name in named.items()}
    return {path: name.encode(errors="backslashreplace").decode() for path, name in shown.items()}
