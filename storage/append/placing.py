"""Write a large batch to the file before it is appended: a write of 100 MB takes a tenth of a second.

Another thread writes everything but the header. Without the header it is not a batch, so recovery ignores it after a
crash. Then the append writes the header. The caller ensures that nothing else is appended in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch import HEADER_SIZE, BatchHeader
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from storage.fs import FileSystem
    from storage.segment.segment import Segment

#: A batch of at most this size is written by the append itself, which takes some milliseconds.
AT_ONCE_BYTES = 4 << 20


class NotInPlace(Exception):
    """The append needs a batch that is placed at the current log end. Nothing has changed."""


class PlacedBatch:
    """A validated batch with its position at the end of the active segment."""

    __slots__ = ("_config", "_file", "_fs", "_position", "_segment", "header", "records")

    def __init__(
        self, fs: FileSystem, segment: Segment, records: memoryview, header: BatchHeader, config: LogConfig
    ) -> None:
        """Assign the position. `config` is the configuration of the validation. Raises OSError."""
        self._fs = fs
        self._segment = segment
        # held, because the bytes may have to be cut off after the log is closed
        self._file = segment.log.open_file or segment.log.open()
        self._position = segment.size_bytes
        self._config = config
        self.records = records
        self.header = header

    def write(self) -> None:
        """Write everything but the header, in another thread. Raises OSError."""
        self._fs.write_at(self._file.handle, self._position + HEADER_SIZE, (self.records[HEADER_SIZE:],))

    def is_in_place(self, segment: Segment, config: LogConfig) -> bool:
        """Return whether the batch is still at the end of this segment and was validated with this configuration."""
        return segment is self._segment and segment.size_bytes == self._position and config is self._config

    def undo(self) -> None:
        """Cut the bytes off, unless the batch was appended. Raises OSError."""
        if self._segment.size_bytes == self._position:
            self._fs.truncate(self._file.handle, self._position)
