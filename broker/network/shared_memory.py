"""Memory for the responses of several connections, each of which is used up before the next one is received.

A follower appends the records of a Fetch response at once, and keeps none of them. In new memory for each response, the
first write to each 4 KiB would be a page fault, and they would take longer than the receiving.
"""

from __future__ import annotations

from mmap import mmap

from broker.network.receive_buffer import FrameBuffers

#: Most responses to a follower arrive with one read of this size. The system supplies the memory with its first use.
_ROOM_BYTES = 256 << 10


class SharedMemory:
    """The memory of connections of one event loop (`OutboundConnection`).

    Attributes:
        room: for the bytes of one read, until it is processed.
        frames: for large frames that one read does not complete.
    """

    __slots__ = ("frames", "room")

    def __init__(self) -> None:
        self.room = memoryview(mmap(-1, _ROOM_BYTES))
        self.frames = FrameBuffers()
