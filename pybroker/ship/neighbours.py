"""Files beside a log that have the name of a rotated file of it, but are not: their inodes and first bytes tell.

A rotated file appears when the log is rotated. A file that had such a name before, or that appears while the log
stays the same file, belongs to another program or was rotated before the log was followed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pybroker.ship.log_file import HEAD_BYTES, LogFile
from pybroker.ship.positions import Position
from pybroker.ship.rotated_names import is_rotated_name

_Inode = tuple[int, int]
#: File systems advance the time of a change in ticks of up to 10 ms: a second change in a tick leaves no trace.
_TICK_NS = 20_000_000


class Neighbours:
    """The files of a log's folder that are never sent, by inode and first bytes.

    Args:
        known: those that an earlier process has seen.
        now_ns: the clock by which the file system sets the times of changes.
    """

    def __init__(self, log: Path, known: Iterable[Position] = (), now_ns: Callable[[], int] = time.time_ns) -> None:
        self._log = log
        self._others: dict[_Inode, Position] = {(each.device, each.inode): each for each in known}
        self._ours: set[_Inode] = set()
        self._now_ns = now_ns
        self._looked_ns: int | None = None

    @property
    def others(self) -> list[Position]:
        """Return the first bytes of each file that is never sent, to store them for a restart."""
        return list(self._others.values())

    def is_other(self, entry: Path, status: os.stat_result) -> bool:
        """Whether the file is one of them: its inode and its first bytes are known."""
        other = self._others.get((status.st_dev, status.st_ino))
        if other is None:
            return False
        try:
            fd = os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return True
        try:
            return other.is_in(fd)
        finally:
            os.close(fd)

    def add_ours(self, file: LogFile) -> None:
        """Record a file of the log: a later name of it does not make it another program's."""
        self._ours.add((file.status.st_dev, file.status.st_ino))

    def look(self, current: LogFile | None, is_unchanged: Callable[[], bool]) -> None:
        """Learn of new files, if the folder has changed.

        `current` is the log, whose copy may be in progress. The files that were found count only if the log
        `is_unchanged` after they were listed; otherwise one of them may be the result of its rotation.
        """
        try:
            changed_ns = self._log.parent.stat().st_mtime_ns
        except OSError:
            return
        if changed_ns == self._looked_ns:
            return
        looked_ns = self._now_ns()
        found = dict(self._heads(current))
        if not is_unchanged():
            return
        self._looked_ns = changed_ns if looked_ns - changed_ns > _TICK_NS else None
        self._ours.intersection_update(found)
        self._others = {inode: head for inode, head in found.items() if head is not None and inode not in self._ours}

    def _heads(self, current: LogFile | None) -> Iterator[tuple[_Inode, Position | None]]:
        """Yield the inode of each file with the name of a rotated one, and its first bytes if it is another's."""
        try:
            names = [entry.name for entry in os.scandir(self._log.parent) if is_rotated_name(self._log, entry.name)]
        except OSError:  # then the log is followed by its name alone
            return
        for name in names:
            try:
                fd = os.open(self._log.with_name(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError:  # renamed or removed in the meantime, or unreadable
                continue
            try:
                status = os.fstat(fd)
                inode = (status.st_dev, status.st_ino)
                head = os.pread(fd, HEAD_BYTES, 0) if stat.S_ISREG(status.st_mode) else b""
            finally:
                os.close(fd)
            if not head or (current is not None and (current.has_inode(status) or current.may_be_copied_to(head))):
                yield inode, None
                continue
            known = self._others.get(inode)
            if known is not None and Position.of(status, 0, head[: known.head_bytes]) == known:
                yield inode, known  # the same bytes as before, so that what is stored does not change as it grows
            else:
                yield inode, Position.of(status, 0, head)
