"""Processes of this machine, as /proc tells of them."""

from __future__ import annotations

from pathlib import Path


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


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in use."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def open_descriptors(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
