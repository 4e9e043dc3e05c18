"""The bytes that a client has sent and that are not served yet (rule 2 of `connection`)."""

from __future__ import annotations

from broker.network.receive_buffer import REST_LIMIT_BYTES, LargeFrame
from broker.network.request_memory import FrameSender, RequestMemory


class Backlog:
    """The backlog of one connection. Its bytes count in the `memory` that all connections share.

    Attributes:
        rest: a copy of requests behind one that waits, or of the beginning of a frame.
        large: a frame that is received into memory of its own.
    """

    __slots__ = ("_memory", "large", "rest")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.rest: bytes | bytearray = b""
        self.large: LargeFrame | None = None

    @property
    def is_over_limit(self) -> bool:
        """Whether no more bytes may be received."""
        return len(self.rest) > REST_LIMIT_BYTES or self._memory.is_used_up

    @property
    def may_be_served(self) -> bool:
        """Whether the rest may contain a complete request."""
        return bool(self.rest) or (self.large is not None and self.large.complete)

    def keep(self, rest: bytes | bytearray) -> None:
        """Replace the rest."""
        self._memory.hold(len(rest) - len(self.rest))
        self.rest = rest

    def take_rest(self) -> bytes | bytearray:
        """Remove and return the rest, to be served now."""
        rest = self.rest
        self.keep(b"")
        return rest

    def begin_large(self, connection: FrameSender, size: int, head: memoryview) -> None:
        """Begin a frame of `size` bytes, its length field included, of which `head` was received."""
        self.large = self._memory.begin(connection, size, head)

    def room(self, large: LargeFrame) -> memoryview:
        """Return the buffer for the frame's next bytes; it is empty if there is no memory for them."""
        if large.filled == len(large.view):
            self._memory.grow(large)
        return large.room()

    def drop(self) -> None:
        """Drop all bytes."""
        self.keep(b"")
        if self.large is not None:
            self._memory.drop(self.large)
            self.large = None
