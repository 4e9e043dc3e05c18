"""A large batch is put into its place in the file before it is appended: to write 100 MB takes a tenth of a second.

Another thread writes all but the header. Without that it is no batch, also for whoever finds the file after a crash.
The append follows, and writes the header. Nothing else may be appended in between: the caller sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch import HEADER_SIZE, BatchHeader
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from storage.fs import FileSystem
    from storage.segment.segment import Segment

#: A batch of up to so many bytes is written where it is appended: some milliseconds.
AT_ONCE_BYTES = 4 << 20


class NotInPlace(Exception):
    """The append has to be given a batch whose place is that at the end of the log. Nothing has changed."""


class PlacedBatch:
    """A checked batch and its place, at the end of what is the active segment now."""

    __slots__ = ("_config", "_file", "_fs", "_position", "_segment", "header", "records")

    def __init__(
        self, fs: FileSystem, segment: Segment, records: memoryview, header: BatchHeader, config: LogConfig
    ) -> None:
        """`config`: by which the batch was checked. OSError."""
        self._fs = fs
        self._segment = segment
        self._file = segment.log.open_file or segment.log.open()  # held: it may have to be cut off once it is closed
        self._position = segment.size_bytes
        self._config = config
        self.records = records
        self.header = header

    def write(self) -> None:
        """All but the header: for another thread. OSError."""
        self._fs.write_at(self._file.handle, self._position + HEADER_SIZE, (self.records[HEADER_SIZE:],))

    def is_in_place(self, segment: Segment, config: LogConfig) -> bool:
        """Whether it still lies at the end of this segment, and was checked by this configuration."""
        return segment is self._segment and segment.size_bytes == self._position and config is self._config

    def undo(self) -> None:
        """Cut it off, unless it was appended. OSError."""
        if self._segment.size_bytes == self._position:
            self._fs.truncate(self._file.handle, self._position)
