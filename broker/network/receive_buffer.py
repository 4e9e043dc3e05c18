"""Where received bytes land.

`ReceiveBuffer`: one for all connections of a loop. Each read of a turn lands behind the one before, requests are
decoded in place, and the next turn begins at the front again. So views of a request live to the end of the turn: what
waits longer, copies.

`LargeFrame`: a frame that one read did not bring whole. What is there is copied once, the rest is received right
behind it. Its memory grows with the bytes that arrive, never by the size that the frame claims, and as `RequestMemory`
allows.
"""

from __future__ import annotations

from mmap import mmap

from runtime.turn import Turn

# Requests received behind one that waits, above which no more is received.
REST_LIMIT_BYTES = 64 * 1024
# A frame of more than this that is not whole is received into memory of its own, a smaller one again into the loop's
# buffer.
LARGE_FRAME_BYTES = 16 * 1024
# And of so much at least.
SMALLEST_FRAME_BUFFER = 64 * 1024
# Received at once at most: a good many small requests, and no more of a large one than is cheap to copy to memory of
# its own, where the rest of it is received.
_READ_BYTES = 128 * 1024
# Free at least before a read: room for the rest of a frame besides.
_ROOM_BYTES = 256 * 1024
# Received at once at most of a large frame: the kernel may have tens of MB of it, which would hold the loop for as many
# milliseconds.
_LARGE_READ_BYTES = 1024 * 1024
_BUFFER_BYTES = 2 * 1024 * 1024
# Buffers kept from turn to turn; those of a turn that needs more are freed with the last view of them.
_KEPT_BUFFERS = 4


#: What a large frame is received into.
Room = bytearray | mmap


class ReceiveBuffer:
    """The loop's buffer; `view[position:]` is free. Used in the order room, claim, as often as a turn needs."""

    __slots__ = ("_buffers", "_next", "_rewinding", "_turn", "position", "view")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._buffers = [memoryview(bytearray(_BUFFER_BYTES))]
        self._next = 1
        self._rewinding = False
        self.view = self._buffers[0]
        self.position = 0

    def room(self) -> memoryview:
        """Free room to receive into, 128 KiB of it."""
        position = self.position
        if position > _BUFFER_BYTES - _ROOM_BYTES:
            self._change()
            position = 0
        return self.view[position : position + _READ_BYTES]

    def room_behind(self, head: bytes | bytearray) -> memoryview:
        """Put `head`, of less than 64 KiB, at the front of the free room; the room behind it."""
        if self.position > _BUFFER_BYTES - _ROOM_BYTES:
            self._change()
        end = self.position + len(head)
        self.view[self.position : end] = head
        return self.view[end : end + _READ_BYTES]

    def claim(self, size: int) -> None:
        """The first `size` bytes of the free room are in use until the end of the turn."""
        self.position += size
        if not self._rewinding:
            self._rewinding = True
            self._turn.at_end(self._rewind)

    def _change(self) -> None:
        """Go on in another buffer: a turn that brings more than one holds is rare."""
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
    """Memory for large frames, by sizes that are powers of two; what a frame gives back serves the next.

    New memory costs the kernel a page fault for each 4 KiB, which is as much as receiving into it does. Of frames above
    4 MiB nothing is used again: a batch of such a size may lie where it is for as long as it likes
    (broker/replicas/append_scheduler.py).
    """

    __slots__ = ("_free", "_kept_bytes")

    _LARGEST_KEPT = 4 * 1024 * 1024
    # Once so much has arrived, all that is to come has its room: what is moved into another buffer from here on would
    # hold the loop for tens of milliseconds.
    _MOVED_BYTES = 8 * 1024 * 1024
    _KEPT_BYTES = 8 * 1024 * 1024
    # As many times what has arrived may be set aside for what is to come.
    _GROWTH = 8

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0

    def next_size(self, size: int, filled: int) -> int:
        """What to take for a frame of `size` bytes, of which `filled` have arrived: a buffer for all if one is free."""
        whole = self.size_of(size)
        allowed = self._GROWTH * filled if filled < self._MOVED_BYTES else size
        return whole if size <= allowed or self._free.get(whole) else self.size_of(allowed)

    def size_of(self, size: int) -> int:
        """The smallest that holds so much. Sizes that are kept are round; of a giant no more is taken than needed."""
        return size if size > self._LARGEST_KEPT else 1 << (max(size, SMALLEST_FRAME_BUFFER) - 1).bit_length()

    def take(self, size: int) -> Room:
        """A buffer of one of these sizes; one that is not kept is the system's, which takes memory as bytes arrive."""
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
    """A frame under way: `view[filled:]` is what the next bytes are received into.

    Args:
        size: of the whole frame with its length.
        head: what has arrived of it, copied.
        buffer: where to, not too small for that.
    """

    __slots__ = ("buffer", "filled", "idle_rounds", "seen", "size", "view")

    def __init__(self, size: int, head: memoryview, buffer: Room) -> None:
        self.size = size
        self.filled = len(head)
        self.buffer = buffer
        self.view = memoryview(buffer)[:size]
        self.view[: self.filled] = head
        # Notes of `RequestMemory`: what had come when it last looked and found it moving, and how often since.
        self.seen = 0
        self.idle_rounds = 0

    @property
    def complete(self) -> bool:
        """Whether all of it has arrived."""
        return self.filled == self.size

    @property
    def held_bytes(self) -> int:
        """Memory set aside for it."""
        return len(self.buffer)

    def room(self) -> memoryview:
        """Where to receive next: never beyond the frame's end, empty only where it is complete or has to `move`."""
        return self.view[self.filled : self.filled + _LARGE_READ_BYTES]

    def move(self, larger: Room) -> Room:
        """Go on in another buffer, once all the room there was is filled; the one before."""
        before, self.buffer = self.buffer, larger
        self.view = memoryview(larger)[: self.size]
        self.view[: self.filled] = memoryview(before)[: self.filled]
        return before
