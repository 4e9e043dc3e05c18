"""A piece of a segment file on its way to a client: named by file and position, its bytes untouched."""

from __future__ import annotations

from storage.fs import FileSystem
from storage.open_files import OpenFile

#: Bytes asked of the disk at a time when a slice is read into the page cache: too few to be noticed on the core that
#: the loop runs on, and no more than any Linux takes at once.
_WARM_BYTES = 128 << 10
#: How far the disk reads beyond what is waited for: whoever reads on finds it in the page cache.
_AHEAD_BYTES = 2 << 20

#: Both ends of a slice this small lie on one page, or on two that are rarely cached one without the other.
_PAGE_BYTES = 4096

#: Within so many bytes, if both ends are in the page cache, what lies between is taken to be there as well.
_BLOCK_BYTES = 256 << 10
#: How long that is believed: the system may drop a page from its cache at any time.
_CACHED_MS = 1000
#: For how many blocks of a file it is remembered: for more than it has readers, for too few to be felt in memory.
_MOST_BLOCKS = 64
_UNKNOWN = (0, 0)
#: How many pages of a file are remembered as asked about in vain, until all are forgotten.
_MOST_PAGES = 256

#: What a read that found nothing gives.
EMPTY = b""


class FetchSlice:
    """`size` bytes at `position` of an open file; a chunk of a response that is sent by sendfile, or read.

    Holds its file open (rule H1): the bytes stay readable when the segment is deleted, renamed or closed meanwhile.
    Dropping the slice lets go of the file; `release()` does so at once.
    """

    __slots__ = ("_fs", "_size", "at_hand", "file", "position")

    def __init__(
        self,
        fs: FileSystem,
        file: OpenFile,
        position: int,
        size: int,
        at_hand: bytes = EMPTY,
    ) -> None:
        self._fs = fs
        self.file: OpenFile | None = file
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
        """The bytes from `start` to before `end`, as a slice of its own. Raises ValueError when this is released."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return FetchSlice(self._fs, self.file, self.position + start, end - start)

    def release(self) -> None:
        """Let go of the file; again is fine."""
        self.file = None

    def is_cold(self, now_ms: int) -> bool:
        """Whether sending it would wait for the disk, judged by its last page and its first.

        If the last page of its block is in memory as well, slices up to there are taken to be so for a while: whoever
        reads little at a time, or what others read before, need not ask each time. `now_ms`: any monotonic time.
        """
        file = self.file
        if self.at_hand or file is None or not file.tells_cached:
            return False
        end = self.position + self._size
        block = (end - 1) // _BLOCK_BYTES
        start, until_ms = file.cached.get(block, _UNKNOWN)
        if start <= self.position and now_ms < until_ms:
            return False
        try:
            cached = self._is_cached(file, end - 1)
            if cached and self._size > _PAGE_BYTES:
                cached = self._is_cached(file, self.position)
            if cached is None:
                file.tells_cached = False
            elif cached and self._size < _BLOCK_BYTES:
                block_end = min((block + 1) * _BLOCK_BYTES, self._fs.size(file.handle))
                if block_end <= end or self._is_cached(file, block_end - 1):
                    if len(file.cached) >= _MOST_BLOCKS:
                        file.cached.clear()
                    file.cached[block] = (self.position, now_ms + _CACHED_MS)
        except OSError:  # the disk is failing, or its mount gone: it is for another thread to find out
            return True
        return cached is False

    def _is_cached(self, file: OpenFile, position: int) -> bool | None:
        """Whether the page at `position` is cached, and not only because it was asked about; None: nobody can tell.

        Newer Linux begins to read a page that is missing, but not its neighbours, before it says that it is missing.
        Whoever asked next would take the neighbours to be cached as well.
        """
        page = position // _PAGE_BYTES
        cached = self._fs.is_cached(file.handle, position)
        if cached:
            return page not in file.unread
        if cached is False:
            if len(file.unread) >= _MOST_PAGES:
                file.unread.clear()
            file.unread.add(page)
        return cached

    def warm(self) -> None:
        """Read the pages into the cache, and begin to read those behind them. For another thread, which waits for the
        disk in the loop's place.

        From then on the system does not read ahead of this file by itself: it would do so while the loop sends, and
        hold the loop up while it takes as much memory as the disk's `read_ahead_kb` says, megabytes on some.
        """
        fs, handle, file = self._fs, self.fileno(), self.file
        assert file is not None
        fs.keep_from_reading_ahead(handle)
        scratch = bytearray(_WARM_BYTES)
        for start in range(0, self._size + _AHEAD_BYTES, _WARM_BYTES):
            fs.read_ahead(handle, self.position + start, _WARM_BYTES)
            if (there := start - _AHEAD_BYTES) >= 0:
                fs.read_into(handle, scratch, self.position + there)
        first, last = self.position // _PAGE_BYTES, (self.position + self._size - 1) // _PAGE_BYTES
        file.unread.difference_update([page for page in tuple(file.unread) if first <= page <= last])

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
