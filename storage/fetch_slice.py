"""A range of a segment file that is on its way to a client: file, position and size, with the bytes unchanged."""

from __future__ import annotations

from storage.fs import FileSystem
from storage.open_files import OpenFile

#: Bytes per read while a slice is read into the page cache. One such read takes negligible time on the core of the
#: event loop, and every Linux reads this much at once.
_WARM_BYTES = 128 << 10
#: How far the disk reads ahead of the requested bytes, so that the next fetch finds them in the page cache.
_AHEAD_BYTES = 2 << 20

#: Both ends of a slice of at most this size lie on one page, or on two pages that are usually cached together.
_PAGE_BYTES = 4096

#: If both ends of a range of at most this size are in the page cache, the bytes between them count as cached.
_BLOCK_BYTES = 256 << 10
#: How long that result stays valid: the kernel may evict a page at any time.
_CACHED_MS = 1000
#: Cached blocks remembered for each file. That covers more readers than a file has, and uses little memory.
_MOST_BLOCKS = 64
_UNKNOWN = (0, 0)
#: Pages remembered for each file that were queried while they were not cached. At this number all are forgotten.
_MOST_PAGES = 256

#: Slices up to this size are copied instead of sent by sendfile (measured in broker/network/output_queue.py).
INLINE_BYTES = 4096

#: The result of a read that found nothing.
EMPTY = b""


class FetchSlice:
    """`size` bytes at `position` of an open file: a chunk of a response, sent by sendfile or read.

    The slice keeps its file open (rule H1), so the bytes stay readable when the segment is deleted, renamed or closed
    meanwhile. The file is released when the slice is garbage collected, or at once by `release()`.
    """

    __slots__ = ("_fs", "file", "in_memory", "position", "size")

    def __init__(
        self,
        fs: FileSystem,
        file: OpenFile,
        position: int,
        size: int,
        in_memory: bytes = EMPTY,
    ) -> None:
        self._fs = fs
        self.file: OpenFile | None = file
        self.position = position
        self.size = size
        #: All bytes of the slice if they are in memory, else empty.
        self.in_memory = in_memory

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FetchSlice(position={self.position}, size={self.size})"

    def fileno(self) -> int:
        """Return the descriptor to send from. Raises ValueError after `release()`."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return self.file.handle

    def piece(self, start: int, end: int) -> FetchSlice:
        """Return the bytes from `start` to `end` (exclusive) as another slice. Raises ValueError after `release()`."""
        if self.file is None:
            raise ValueError("the slice has been released")
        return FetchSlice(self._fs, self.file, self.position + start, end - start)

    def inline(self) -> FetchSlice | bytes:
        """Return the bytes, or this slice if the file ended early, which the sender reports. Raises OSError.

        For slices up to INLINE_BYTES.
        """
        file = self.file
        if self.in_memory or file is None:
            return self.in_memory or self
        data = self._fs.pread(file.handle, self.size, self.position)
        return data if len(data) == self.size else self

    def release(self) -> None:
        """Release the file. May be called more than once."""
        self.file = None

    def is_cold(self, now_ms: int) -> bool:
        """Return whether sending the slice would wait for the disk, judged by its first and last page.

        If the last page of its block is also in memory, slices up to there count as cached for a while, so readers of
        small slices need not query each time. `now_ms` is any monotonic time in ms.
        """
        file = self.file
        if self.in_memory or file is None or not file.reports_cached:
            return False
        end = self.position + self.size
        block = (end - 1) // _BLOCK_BYTES
        start, until_ms = file.cached.get(block, _UNKNOWN)
        if start <= self.position and now_ms < until_ms:
            return False
        try:
            cached = self._is_cached(file, end - 1)
            if cached and self.size > _PAGE_BYTES:
                cached = self._is_cached(file, self.position)
            if cached is None:
                file.reports_cached = False
            elif cached and self.size < _BLOCK_BYTES:
                block_end = min((block + 1) * _BLOCK_BYTES, self._fs.size(file.handle))
                if block_end <= end or self._is_cached(file, block_end - 1):
                    if len(file.cached) >= _MOST_BLOCKS:
                        file.cached.clear()
                    file.cached[block] = (self.position, now_ms + _CACHED_MS)
        except OSError:  # The disk is failing or unmounted; the thread that reads the slice reports it.
            return True
        return cached is False

    def _is_cached(self, file: OpenFile, position: int) -> bool | None:
        """Return whether the page at `position` is cached for another reason than an earlier query; None if unknown.

        A query for a missing page makes newer Linux kernels read that page, but not its neighbours. The next query
        would then report the page as cached, and its neighbours would wrongly count as cached too.
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
        """Read the slice into the page cache and start reading the pages after it.

        Call it from another thread, because it waits for the disk. Afterwards the kernel no longer reads ahead in this
        file by itself: it would do so while the event loop sends, and block the loop while it allocates `read_ahead_kb`
        of memory, which is megabytes on some disks.
        """
        fs, handle, file = self._fs, self.fileno(), self.file
        assert file is not None
        fs.disable_read_ahead(handle)
        scratch = bytearray(_WARM_BYTES)
        for start in range(0, self.size + _AHEAD_BYTES, _WARM_BYTES):
            fs.read_ahead(handle, self.position + start, _WARM_BYTES)
            if (ready := start - _AHEAD_BYTES) >= 0:
                fs.read_into(handle, scratch, self.position + ready)
        first, last = self.position // _PAGE_BYTES, (self.position + self.size - 1) // _PAGE_BYTES
        file.unread.difference_update([page for page in tuple(file.unread) if first <= page <= last])

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """Return the bytes, or `size` of them from `start`. Returns fewer if the file was truncated meanwhile."""
        if self.in_memory:
            return self.in_memory[start : None if size is None else start + size]
        want = self.size - start if size is None else min(size, self.size - start)
        handle, parts = self.fileno(), []
        while want > 0:
            part = self._fs.pread(handle, want, self.position + start)
            if not part:
                break
            parts.append(part)
            start += len(part)
            want -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
