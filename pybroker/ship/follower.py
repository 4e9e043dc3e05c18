"""One log by its path, through all its rotations: the old file to its end, and then the new one."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pybroker.ship.lines import Line
from pybroker.ship.log_file import LogFile, last_line_start
from pybroker.ship.positions import Position
from pybroker.ship.rotation import copy_of, locate, rotated_since

# A program that writes a log goes on with the old file until it has been told of the new one, as nginx by a signal.
_QUIET_NS = 2_000_000_000
_REMEMBERED = 8  # files that are finished, lest one whose time equals its successor's is taken for a later one


class Follower:
    """Gives a log's lines in order. It never waits: whoever calls does, between two calls.

    `tell` gets what somebody should know: unread lines that are gone, files that cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        max_line_bytes: int,
        tell: Callable[[str], None] = lambda line: None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = path
        self._max = max_line_bytes
        self._tell = tell
        self._now_ns = now_ns
        self._files: deque[LogFile] = deque()  # the first is read, the last has the log's name
        self._finished: deque[LogFile] = deque(maxlen=_REMEMBERED)
        self._refused = ""

    def start(self, *, from_beginning: bool) -> Position | None:
        """Begin with a log that was never followed; return where. A log that is not there yet begins when it comes.

        Errors: OSError where it cannot be read.
        """
        try:
            offset = 0 if from_beginning else last_line_start(self.path, self._max)
            self._files.append(LogFile(self.path, self._max, offset))
        except FileNotFoundError:
            return None
        return self._files[0].position_at(offset)

    def resume(self, position: Position | None, since_ns: int) -> None:
        """Go on behind a position that was true at `since_ns`, in whatever file that is in by now.

        A log that was not there then may have come and been rotated since. Errors: OSError where it cannot be read.
        """
        found = locate(self.path, position) if position is not None and position.head_bytes else None
        if position is not None and found is not None:
            self._files.append(LogFile(found, self._max, position.offset))
        else:
            if position is not None and position.offset:
                self._tell(f"{self.path}: the file that was sent to byte {position.offset} is gone or compressed")
            for path in rotated_since(self.path, since_ns, ()):
                self._append(path)
        self.watch()

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()

    def watch(self) -> None:
        """See whether the log was rotated. To be called also while nothing can be read: files are kept open by it."""
        try:
            status = self.path.stat()
        except OSError:  # between a rename and the making of the new file; or its folder cannot be read now
            status = None
        if self._files:
            last = self._files[-1]
            since_ns = last.modified_ns()
            if status is not None and last.is_inode(status):
                if not (last.is_truncated() if last.has_head else last.was_written()):
                    return
                since_ns = self._leave_truncated()
            for path in rotated_since(self.path, since_ns, [*self._files, *self._finished]):
                self._append(path)
        if status is not None:
            self._append(self.path, status)

    def read(self) -> list[tuple[LogFile, Line]]:
        """Return the next lines, with the file that each is of; none where none has been completed."""
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

    def _is_finished(self, file: LogFile) -> bool:
        """Whether it will not grow any more: its successor has, and nothing came for a while."""
        if len(self._files) == 1 or (len(self._files) == 2 and self._files[1].is_empty()):
            return file.is_cut_off
        quiet = file.is_cut_off or self._now_ns() - file.modified_ns() >= _QUIET_NS
        return quiet and file.is_read()

    def _leave_truncated(self) -> int:
        """Replace the last file, which was truncated, by the copy that was made before.

        Return since when there may be copies of what came into it later. It may have been written and truncated more
        than once since it was looked at; of one that was empty then, nothing is known by which to find a copy.
        """
        file = self._files[-1]
        if not file.has_head:
            self._files.pop().close()
            return file.status.st_mtime_ns
        copy = copy_of(self.path, file)
        if copy is None:
            file.is_cut_off = True
            gone = f"what it had behind byte {file.line_start} is gone"
            self._tell(f"{self.path}: was truncated, no copy is beside it: {gone}")
            return file.modified_ns()
        self._files[-1] = LogFile(copy, self._max, file.line_start)
        file.close()
        return self._files[-1].modified_ns()

    def _append(self, path: Path, expected: os.stat_result | None = None) -> None:
        """Open a file as the last; not where it is another one than expected: a rotation came between."""
        try:
            file = LogFile(path, self._max)
        except OSError as error:
            if (refused := f"{path}: {error.strerror}") != self._refused:
                self._tell(f"{refused}: trying on")
            self._refused = refused
            return
        if expected is None or file.is_inode(expected):
            self._files.append(file)
        else:
            file.close()
