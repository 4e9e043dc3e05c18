"""The processes of this machine, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self


def _status(pid: int) -> list[str]:
    """Return state, parent and so on of a process; an empty list if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    status = _status(pid)
    return bool(status) and status[0] != "Z"


def children(pid: int) -> list[int]:
    """Return the running children of a process."""
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [each for each in every if (status := _status(each)) and int(status[1]) == pid and status[0] != "Z"]


def family(pid: int) -> Iterator[int]:
    """Yield a running process and its running descendants."""
    yield pid
    for child in children(pid):
        yield from family(child)


def descriptors(pid: int) -> Iterator[str]:
    """Yield the open files of a process, as `ls -l` shows them; nothing without the permission to read them."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # closed a moment ago
            yield os.readlink(path)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def open_descriptors(pid: int) -> int:
    """Return the number of open files and sockets of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class MemoryWatch(threading.Thread):
    """The peak memory of a process and its descendants together, in bytes."""

    def __init__(self, pid: int, every_s: float = 0.05) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._every_s = every_s
        self._stopping = threading.Event()
        self.own_bytes = resident_bytes(pid)
        self.children_bytes = 0

    def run(self) -> None:
        """Measure until the block or the process ends."""
        while not self._stopping.wait(self._every_s):
            with suppress(OSError, StopIteration):
                self.own_bytes = max(self.own_bytes, resident_bytes(self._pid))
                self.children_bytes = max(self.children_bytes, sum(map(_resident_or_gone, children(self._pid))))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def _resident_or_gone(pid: int) -> int:
    with suppress(OSError, StopIteration):
        return resident_bytes(pid)
    return 0
