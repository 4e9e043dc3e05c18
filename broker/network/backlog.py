"""What a client has sent and is not served yet (rule 2 of `connection`)."""

from __future__ import annotations

from broker.network.receive_buffer import REST_LIMIT_BYTES, LargeFrame
from broker.network.request_memory import FrameSender, RequestMemory


class Backlog:
    """Of one connection; all of it counts in the `memory` of all.

    Attributes:
        rest: copied: requests behind one that waits, or the beginning of a frame.
        large: a frame that is received into memory of its own.
    """

    __slots__ = ("_memory", "large", "rest")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.rest: bytes | bytearray = b""
        self.large: LargeFrame | None = None

    @property
    def is_too_much(self) -> bool:
        """Whether no more of it is to be received."""
        return len(self.rest) > REST_LIMIT_BYTES or self._memory.is_used_up

    @property
    def may_be_served(self) -> bool:
        """Whether there may be a whole request in it."""
        return bool(self.rest) or (self.large is not None and self.large.complete)

    def keep(self, rest: bytes | bytearray) -> None:
        """Have this as the rest, in the place of what it was."""
        self._memory.hold(len(rest) - len(self.rest))
        self.rest = rest

    def take_rest(self) -> bytes | bytearray:
        """The rest, which is to be served now."""
        rest = self.rest
        self.keep(b"")
        return rest

    def begin_large(self, connection: FrameSender, size: int, head: memoryview) -> None:
        """A frame of `size` bytes with its length has begun with `head`."""
        self.large = self._memory.begin(connection, size, head)

    def room(self, large: LargeFrame) -> memoryview:
        """Where to receive the frame's next bytes; empty where there is no memory for them."""
        if large.filled == len(large.view):
            self._memory.grow(large)
        return large.room()

    def drop(self) -> None:
        """Forget all of it."""
        self.keep(b"")
        if self.large is not None:
            self._memory.drop(self.large)
            self.large = None
