"""Find the earlier files of a log: renamed ones, or copies that were made before the log was truncated.

They must be in the folder of the log, and not be compressed. A file that was read before is found by its inode and
first bytes under any name, a copy by its first bytes. A file that was never read needs the name of a rotated file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from pybroker.ship.log_file import LogFile
from pybroker.ship.neighbours import Neighbours
from pybroker.ship.positions import Position
from pybroker.ship.rotated_names import is_compressed_name, is_rotated_name


def locate(path: Path, position: Position, neighbours: Neighbours) -> Path | None:
    """Return the file of a position: the one with its inode and its first bytes, or else a copy of it."""
    entries = list(_regular_files(path.parent))
    same = [entry for entry, status in entries if position.has_inode(status) and _is_in(position, entry)]
    if not same and position.head_bytes:
        same = [
            entry
            for entry, status in entries
            if is_rotated_name(path, entry.name) and _is_in(position, entry) and not neighbours.is_other(entry, status)
        ]
    return same[0] if same else None


def copy_of(path: Path, truncated: LogFile, neighbours: Neighbours) -> Path | None:
    """Return the copy that was made of a log before it was truncated."""
    for entry, status in _regular_files(path.parent) if truncated.has_head else ():
        if (
            is_rotated_name(path, entry.name)
            and status.st_size >= truncated.line_start
            and truncated.begins_like(entry)
            and not neighbours.is_other(entry, status)
        ):
            return entry
    return None


def rotated_since(path: Path, since_ns: int, known: Iterable[LogFile], neighbours: Neighbours) -> list[Path]:
    """Return the earlier files that were written to since `since_ns`, oldest first, without the known ones."""
    found = [
        (status.st_mtime_ns, entry)
        for entry, status in _regular_files(path.parent)
        if is_rotated_name(path, entry.name)
        and status.st_mtime_ns >= since_ns
        and not any(file.has_inode(status) and file.begins_like(entry) for file in known)
        and not neighbours.is_other(entry, status)
    ]
    return [entry for _, entry in sorted(found)]


def compressed_since(path: Path, since_ns: int) -> list[Path]:
    """Return the compressed files of the log that were written to since `since_ns`."""
    return [
        entry
        for entry, status in _regular_files(path.parent)
        if is_compressed_name(path, entry.name) and status.st_mtime_ns >= since_ns
    ]


def _regular_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # the folder cannot be listed: then the log is followed by its name alone
        return
    for entry in entries:
        try:
            status = entry.stat()
        except OSError:  # renamed or removed in the meantime
            continue
        if stat.S_ISREG(status.st_mode):
            yield entry, status


def _is_in(position: Position, entry: Path) -> bool:
    try:
        fd = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return position.is_in(fd)
    finally:
        os.close(fd)
