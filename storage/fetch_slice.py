"""A piece of a segment file on its way to a client: named by file and position, its bytes untouched."""

from __future__ import annotations

from storage.fs import FileSystem
from storage.open_files import OpenFile

#: Read at a time to have a slice in the page cache.
_WARM_BYTES = 1 << 20

#: Judged together whether they are in the page cache: those who read little at a time need not ask each time.
_BLOCK_BYTES = 256 << 10

#: What a read that found nothing gives.
EMPTY = b""


class FetchSlice:
    """`size` bytes at `position` of an open file; a chunk of a response that is sent by sendfile, or read.

    Holds its file open (rule H1): the bytes stay readable when the segment is deleted, renamed or closed meanwhile.
    Dropping the slice is letting go; `release()` does it at once.
    """

    __slots__ = ("_fs", "_size", "at_hand", "file", "is_recent", "position")

    def __init__(
        self,
        fs: FileSystem,
        file: OpenFile,
        position: int,
        size: int,
        is_recent: bool = False,
        at_hand: bytes = EMPTY,
    ) -> None:
        self._fs = fs
        self.file: OpenFile | None = file
        #: Appended not long ago, so that it is in the page cache.
        self.is_recent = is_recent
        self.position = position
        self._size = size
        #: All of its bytes, where they are in memory; else none.
        self.at_hand = at_hand

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"FetchSlice(position={self.position}, size={self._size})"

    def fileno(self) -> int:
        """The descriptor to send from. ValueError after `release()`."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return self.file.handle

    def piece(self, start: int, end: int) -> FetchSlice:
        """Some of the bytes, as a slice of its own."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return FetchSlice(self._fs, self.file, self.position + start, end - start, self.is_recent)

    def release(self) -> None:
        """Let go of the file; again is fine."""
        self.file = None

    def is_cold(self) -> bool:
        """Whether sending it would wait for the disk, judged by its last page: the first was read to find it.

        Not asked about in a block of the file whose own last page was found in the page cache when it was asked last.
        """
        file = self.file
        if self.is_recent or file is None or not file.tells_cached:
            return False
        last = self.position + self._size - 1
        block = last // _BLOCK_BYTES
        if block == file.cached_block:
            return False
        cached = self._fs.is_cached(file.handle, last)
        if cached is None:
            file.tells_cached = False
        elif cached and self._fs.is_cached(file.handle, (block + 1) * _BLOCK_BYTES - 1):
            file.cached_block = block
        return cached is False

    def warm(self) -> None:
        """Have the pages read into the cache: for another thread, which waits for the disk instead of the loop."""
        for start in range(0, self._size, _WARM_BYTES):
            self.read(start, _WARM_BYTES)

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """The bytes, or `size` of them from `start` on. Fewer only where the file was cut meanwhile."""
        if self.at_hand:
            return self.at_hand[start : None if size is None else start + size]
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
