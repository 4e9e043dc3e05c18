"""Processes of this machine, as /proc tells of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self


def _status(pid: int) -> list[str]:
    """State, parent and so on of a process; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Whether there is such a process that is not only waiting to be asked how it ended."""
    status = _status(pid)
    return bool(status) and status[0] != "Z"


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that are alive."""
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [each for each in every if (status := _status(each)) and int(status[1]) == pid and status[0] != "Z"]


def family(pid: int) -> Iterator[int]:
    """A process and all that it has started, and these have, as far as they are alive."""
    yield pid
    for child in children(pid):
        yield from family(child)


def descriptors(pid: int) -> Iterator[str]:
    """What a process has open, as `ls -l` shows it; nothing where nobody may see it."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # it has just been closed
            yield os.readlink(path)


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in use."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def open_descriptors(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class MemoryWatch(threading.Thread):
    """The most memory that a process, and all those that it has started together, were seen with; in bytes."""

    def __init__(self, pid: int, every_s: float = 0.05) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._every_s = every_s
        self._stopping = threading.Event()
        self.own_bytes = resident_bytes(pid)
        self.children_bytes = 0

    def run(self) -> None:
        """Until the block ends, or the process."""
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
