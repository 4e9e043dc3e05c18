"""A piece of a segment file on its way to a client: named by file and position, its bytes untouched."""

from __future__ import annotations

from storage.fs import FileSystem
from storage.open_files import OpenFile

#: What a read that found nothing gives.
EMPTY = b""


class FetchSlice:
    """`size` bytes at `position` of an open file; a chunk of a response that is sent by sendfile, or read.

    Holds its file open (rule H1): the bytes stay readable when the segment is deleted, renamed or closed meanwhile.
    Dropping the slice is letting go; `release()` does it at once.
    """

    __slots__ = ("_fs", "_size", "file", "position")

    def __init__(self, fs: FileSystem, file: OpenFile, position: int, size: int) -> None:
        self._fs = fs
        self.file: OpenFile | None = file
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"FetchSlice(position={self.position}, size={self._size})"

    def fileno(self) -> int:
        """The descriptor to send from. ValueError after `release()`."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return self.file.handle

    def acquire(self) -> FetchSlice:
        """Another holder of the same piece."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return FetchSlice(self._fs, self.file, self.position, self._size)

    def release(self) -> None:
        """Let go of the file; again is fine."""
        self.file = None

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """The bytes, or `size` of them from `start` on. Fewer only where the file was cut meanwhile."""
        want = self._size - start if size is None else min(size, self._size - start)
        handle, parts = self.fileno(), []
        while want > 0:
            part = self._fs.pread(handle, want, self.position + start)
            if not part:
                break
            parts.append(part)
            start += len(part)
            want -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
