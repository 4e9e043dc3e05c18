"""Buffers for received bytes.

`ReceiveBuffer`: one for all connections of a loop. Each read of a turn is placed behind the one before, requests are
decoded in place, and the next turn begins at the front again. So views of a request are valid until the end of the
turn; code that keeps bytes longer copies them.

`LargeFrame`: a frame that one read did not complete. Its first bytes are copied once; the rest is received behind them.
Its memory grows with the bytes that arrive, never by the size that the frame claims, and within the limit of
`RequestMemory`.
"""

from __future__ import annotations

from mmap import mmap

from runtime.turn import Turn

# Bytes of requests behind one that waits, above which the connection receives no more.
REST_LIMIT_BYTES = 64 * 1024
# An incomplete frame of more than this is received into its own memory; a smaller one continues in the loop's
# buffer.
LARGE_FRAME_BYTES = 16 * 1024
# The smallest buffer of a large frame.
SMALLEST_FRAME_BUFFER = 64 * 1024
# The most bytes of one read: many small requests, but no more of a large one than is cheap to copy to its own
# memory.
_READ_BYTES = 128 * 1024
# The least free room before a read; it includes the rest of a frame.
_ROOM_BYTES = 256 * 1024
# The most bytes of one read of a large frame: the kernel may have tens of MB, which would block the loop for as many
# milliseconds.
_LARGE_READ_BYTES = 1024 * 1024
_BUFFER_BYTES = 2 * 1024 * 1024
# Buffers that are kept from turn to turn; additional ones are freed with their last view.
_KEPT_BUFFERS = 4


#: The memory that a large frame is received into.
Room = bytearray | mmap


class ReceiveBuffer:
    """The loop's buffer; `view[position:]` is free. Call `room`, then `claim`, as often as a turn needs."""

    __slots__ = ("_buffers", "_next", "_rewinding", "_turn", "position", "view")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._buffers = [memoryview(bytearray(_BUFFER_BYTES))]
        self._next = 1
        self._rewinding = False
        self.view = self._buffers[0]
        self.position = 0

    def room(self) -> memoryview:
        """Return 128 KiB of free room to receive into."""
        position = self.position
        if position > _BUFFER_BYTES - _ROOM_BYTES:
            self._change()
            position = 0
        return self.view[position : position + _READ_BYTES]

    def space_after(self, head: bytes | bytearray) -> memoryview:
        """Copy `head`, of less than 64 KiB, to the front of the free room; return the room behind it."""
        if self.position > _BUFFER_BYTES - _ROOM_BYTES:
            self._change()
        end = self.position + len(head)
        self.view[self.position : end] = head
        return self.view[end : end + _READ_BYTES]

    def claim(self, size: int) -> None:
        """Mark the first `size` bytes of the free room as used until the end of the turn."""
        self.position += size
        if not self._rewinding:
            self._rewinding = True
            self._turn.at_end(self._rewind)

    def _change(self) -> None:
        """Continue in another buffer; turns that fill one are rare."""
        self.position = 0
        if self._next < len(self._buffers):
            self.view = self._buffers[self._next]
        else:
            self.view = memoryview(bytearray(_BUFFER_BYTES))
            if self._next < _KEPT_BUFFERS:
                self._buffers.append(self.view)
        self._next += 1

    def _rewind(self) -> None:
        self._rewinding = False
        self.view = self._buffers[0]
        self._next = 1
        self.position = 0


class FrameBuffers:
    """Memory for large frames, in sizes that are powers of two; returned buffers are reused.

    New memory costs the kernel a page fault for each 4 KiB, as much as receiving into it. Buffers above 4 MiB are not
    reused: a batch of such a size may stay in its buffer for any time (broker/replicas/append_scheduler.py).
    """

    __slots__ = ("_free", "_kept_bytes")

    _LARGEST_KEPT = 4 * 1024 * 1024
    # Once so much has arrived, the frame gets room for the rest: a later copy into another buffer would block the loop
    # for tens of milliseconds.
    _MOVED_BYTES = 8 * 1024 * 1024
    _KEPT_BYTES = 8 * 1024 * 1024
    # The room for a frame is at most this multiple of the bytes that have arrived.
    _GROWTH = 8

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0

    def next_size(self, size: int, filled: int) -> int:
        """Return the next buffer size for a frame with `filled` of `size` bytes: all of it if such a buffer is free."""
        whole = self.size_of(size)
        allowed = self._GROWTH * filled if filled < self._MOVED_BYTES else size
        return whole if size <= allowed or self._free.get(whole) else self.size_of(allowed)

    def size_of(self, size: int) -> int:
        """Return the smallest buffer size that holds `size` bytes: a power of two, or exactly `size` above 4 MiB."""
        return size if size > self._LARGEST_KEPT else 1 << (max(size, SMALLEST_FRAME_BUFFER) - 1).bit_length()

    def take(self, size: int) -> Room:
        """Return a buffer of that size. Large ones are mapped, so the system assigns memory as bytes arrive."""
        if size > self._LARGEST_KEPT:
            return mmap(-1, size)
        free = self._free.get(size)
        if not free:
            return bytearray(size)
        self._kept_bytes -= size
        return free.pop()

    def give_back(self, buffer: Room) -> None:
        """Keep a buffer that nothing refers to any more, within limits."""
        if (
            isinstance(buffer, bytearray)
            and len(buffer) <= self._LARGEST_KEPT
            and self._kept_bytes + len(buffer) <= self._KEPT_BYTES
        ):
            self._free.setdefault(len(buffer), []).append(buffer)
            self._kept_bytes += len(buffer)


class LargeFrame:
    """A frame that is being received: `view[filled:]` takes the next bytes.

    Args:
        size: of the whole frame with its length field.
        head: its first bytes, which are copied.
        buffer: the memory, large enough for `head`.
    """

    __slots__ = ("buffer", "filled", "idle_rounds", "seen", "size", "view")

    def __init__(self, size: int, head: memoryview, buffer: Room) -> None:
        self.size = size
        self.filled = len(head)
        self.buffer = buffer
        self.view = memoryview(buffer)[:size]
        self.view[: self.filled] = head
        # For `RequestMemory`: `filled` at the last check with progress, and the checks without progress since.
        self.seen = 0
        self.idle_rounds = 0

    @property
    def complete(self) -> bool:
        """Whether the whole frame has arrived."""
        return self.filled == self.size

    @property
    def held_bytes(self) -> int:
        """The size of its buffer."""
        return len(self.buffer)

    def room(self) -> memoryview:
        """Return the room for the next bytes: empty only if the frame is complete, or has to `move`."""
        return self.view[self.filled : self.filled + _LARGE_READ_BYTES]

    def move(self, larger: Room) -> Room:
        """Continue in a larger buffer, because this one is full; return the old one."""
        before, self.buffer = self.buffer, larger
        self.view = memoryview(larger)[: self.size]
        self.view[: self.filled] = memoryview(before)[: self.filled]
        return before
