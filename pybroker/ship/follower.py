"""Follow one log by its path through all its rotations: read the old file to its end, then the new one."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from pybroker.ship.lines import Line
from pybroker.ship.log_file import LogFile, last_line_start
from pybroker.ship.neighbours import Neighbours
from pybroker.ship.positions import Position
from pybroker.ship.rotation import compressed_since, copy_of, locate, rotated_since

# A program writes to the old file until it learns of the rotation: nginx, for example, by a signal.
_QUIET_NS = 2_000_000_000
_REMEMBERED_FILES = 8  # finished files: one with the same time as its successor must not be taken for a later file


class Follower:
    """Returns the lines of a log in order. It never waits: the caller waits between two calls.

    It reports lost lines and files that it cannot open through `report`.
    """

    def __init__(
        self,
        path: Path,
        max_line_bytes: int,
        report: Callable[[str], None] = lambda line: None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = path
        self._max = max_line_bytes
        self._report = report
        self._now_ns = now_ns
        self._files: deque[LogFile] = deque()  # the first is being read, the last has the name of the log
        self._finished: deque[LogFile] = deque(maxlen=_REMEMBERED_FILES)
        self._refused = ""
        self._neighbours = Neighbours(path)

    @property
    def others(self) -> list[Position]:
        """Return the files beside the log that are never sent, though they have the name of a rotated file."""
        return self._neighbours.others

    def start(self, *, from_beginning: bool) -> Position | None:
        """Begin with a log that was never followed; return where. A missing log begins when it is created.

        Errors: OSError when it cannot be read.
        """
        try:
            offset = 0 if from_beginning else last_line_start(self.path, self._max)
            self._add(LogFile(self.path, self._max, offset))
        except FileNotFoundError:
            self._neighbours.look(None, lambda: not self.path.exists())
            return None
        self._look_around()
        return self._files[0].position_at(offset)

    def resume(self, position: Position | None, since_ns: int, others: Iterable[Position] = ()) -> None:
        """Resume after a position that was written at `since_ns`, in whichever file has it now.

        A log that was missing then may have been created and rotated since. `others`: as this property was then.
        Errors: OSError when it cannot be read.
        """
        self._neighbours = Neighbours(self.path, others)
        found = None
        if position is not None and position.head_bytes:
            found = locate(self.path, position, self._neighbours)
        if position is not None and found is not None:
            self._add(LogFile(found, self._max, position.offset))
        else:
            if position is not None and position.offset:
                self._report(f"{self.path}: the file that was sent to byte {position.offset} was removed or compressed")
            for path in rotated_since(self.path, since_ns, (), self._neighbours):
                self._append(path)
        for path in compressed_since(self.path, since_ns):
            self._report(f"{path}: was compressed before its lines could be sent: use logrotate's delaycompress")
        self.watch()

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()

    def watch(self) -> None:
        """Check for a rotation. Call it also while nothing can be read: it keeps rotated files open."""
        try:
            status = self.path.stat()
        except OSError:  # between the rename and the new file, or while the folder cannot be read
            status = None
        if self._files:
            last = self._files[-1]
            since_ns = last.modified_ns()
            if status is not None and last.has_inode(status):
                if not (last.is_truncated() if last.has_head else last.was_written()):
                    self._look_around()
                    return
                since_ns = self._leave_truncated()
            for path in rotated_since(self.path, since_ns, [*self._files, *self._finished], self._neighbours):
                self._append(path)
        if status is not None:
            self._append(self.path, status)

    def read(self) -> list[tuple[LogFile, Line]]:
        """Return the next lines, each with its file; none while no line is complete."""
        if not self._files:
            return []
        file = self._files[0]
        lines = file.read()
        if not lines and self._is_finished(file):
            self._finished.append(self._files.popleft())
            file.close()
            rest = file.rest()
            lines = [] if rest is None else [rest]
        return [(file, line) for line in lines]

    def _look_around(self) -> None:
        """Learn which files of the folder are not the log's, as no rotation is in progress."""
        last = self._files[-1]

        def is_unchanged() -> bool:
            try:
                return last.has_inode(self.path.stat()) and not last.is_truncated()
            except OSError:
                return False

        self._neighbours.look(last, is_unchanged)

    def _is_finished(self, file: LogFile) -> bool:
        """Whether the file is complete: its successor has grown, and nothing was added for a while."""
        if len(self._files) == 1 or (len(self._files) == 2 and self._files[1].is_empty()):
            return file.is_cut_off
        quiet = file.is_cut_off or self._now_ns() - file.modified_ns() >= _QUIET_NS
        return quiet and file.is_read()

    def _leave_truncated(self) -> int:
        """Replace the last file, which was truncated, by the copy that was made before.

        Return the time since when there may be copies of later contents: the file may have been written and truncated
        several times since the last check. A file that was empty then has no content by which to find a copy.
        """
        file = self._files[-1]
        if not file.has_head:
            self._files.pop().close()
            return file.status.st_mtime_ns
        copy = copy_of(self.path, file, self._neighbours)
        if copy is None:
            file.is_cut_off = True
            content = f"its content after byte {file.line_start} is lost"
            self._report(f"{self.path}: was truncated, and no copy was found: {content}")
            return file.modified_ns()
        self._files.pop()
        self._add(LogFile(copy, self._max, file.line_start))
        file.close()
        return self._files[-1].modified_ns()

    def _append(self, path: Path, expected: os.stat_result | None = None) -> None:
        """Open a file as the last one, unless a rotation has put another file than the expected one there."""
        try:
            file = LogFile(path, self._max)
        except OSError as error:
            if (refused := f"{path}: {error.strerror}") != self._refused:
                self._report(f"{refused}: trying again")
            self._refused = refused
            return
        if expected is None or file.has_inode(expected):
            self._add(file)
        else:
            file.close()

    def _add(self, file: LogFile) -> None:
        self._files.append(file)
        self._neighbours.add_ours(file)
