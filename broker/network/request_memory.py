"""Memory for incomplete requests: a budget that all connections of a loop share.

Only large frames, of more than one read brings (128 KiB), wait for memory. Small requests are always received and
served.

Rules:
1. A frame may grow while the total stays within the limit. Otherwise its connection stops receiving, and waits.
2. When memory becomes free, waiting frames continue, those with the fewest missing bytes first. One frame at a time may
   exceed the limit, at most by its own size: the one with the fewest missing bytes among those that cannot continue
   otherwise. So one frame always completes, and frees its memory.
3. While frames wait, clients that began a large frame and do not continue it lose their connections, those that were
   idle longest first, until no frame waits.

So the total is at most: the limit, one frame, and two reads (256 KiB) of each connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.network.receive_buffer import SMALLEST_FRAME_BUFFER, FrameBuffers, LargeFrame
from runtime.log_limit import LimitedLog
from runtime.turn import Turn

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from broker.network.transport import Transport

log = logging.getLogger(__name__)

# While frames wait for memory, progress is checked at this interval.
_ROUND_S = 1.0
# A frame that received less than _LEAST_BYTES in each of so many checks is idle: a lost packet is resent after a second
# or two, and a slow line of 1 Mbit/s brings ten times as much.
_ROUNDS = 5
_LEAST_BYTES = 64 * 1024


class FrameSender(Protocol):
    """A connection that receives a large frame."""

    transport: Transport

    @property
    def is_held_back(self) -> bool:
        """Whether no request may be started now."""

    @property
    def is_blocked_by_broker(self) -> bool:
        """Whether only the broker, not the client, can make progress with the client's requests."""

    def on_room(self) -> None:
        """Continue to receive: there is memory for more of the frame."""


class RequestMemory:
    """Counts the memory of all connections, and decides which frames may grow."""

    def __init__(self, turn: Turn, call_later: Callable[[float, Callable[[], None]], TimerHandle]) -> None:
        self.limit_bytes = -1  # queued.max.request.bytes; -1 is no limit
        self.held_bytes = 0  # by connections
        self.queued_bytes = 0  # of requests that wait for a worker, which end without the clients' help
        self._turn = turn
        self._call_later = call_later
        self._buffers = FrameBuffers()
        self._frames: dict[LargeFrame, FrameSender] = {}
        self._waiting: dict[LargeFrame, FrameSender] = {}
        self._beyond: LargeFrame | None = None  # may exceed the limit
        self._review_is_due = False
        self._rounds: TimerHandle | None = None
        self._waiting_log = LimitedLog(log, lines=1)
        self._closing_log = LimitedLog(log)

    @property
    def is_used_up(self) -> bool:
        """Whether connections must not keep more bytes that can wait at the client."""
        return 0 < self.limit_bytes < self.held_bytes + self.queued_bytes

    @property
    def waiting_count(self) -> int:
        """The number of frames that wait for memory."""
        return len(self._waiting)

    def hold(self, more_bytes: int) -> None:
        """Count more (or fewer) bytes that a connection holds beside large frames."""
        self.held_bytes += more_bytes
        if more_bytes < 0 and self._waiting:
            self._review_soon()

    def queue(self, more_bytes: int) -> None:
        """Count more (or fewer) bytes of requests that wait for a worker."""
        self.queued_bytes += more_bytes
        if more_bytes < 0 and self._waiting:
            self._review_soon()

    def close(self) -> None:
        """Stop the checks."""
        if self._rounds is not None:
            self._rounds.cancel()
            self._rounds = None

    # -- large frames --------------------------------------------------------------------------------------------------

    def begin(self, connection: FrameSender, size: int, head: memoryview) -> LargeFrame:
        """Begin a frame of `size` bytes with its length field; there is always memory for `head`, its first bytes."""
        buffer_bytes = self._buffers.next_size(size, len(head))
        if self._excess(buffer_bytes) > 0:
            buffer_bytes = self._buffers.size_of(len(head))
        large = LargeFrame(size, head, self._buffers.take(buffer_bytes))
        self._frames[large] = connection
        self.held_bytes += large.held_bytes
        return large

    def grow(self, large: LargeFrame) -> bool:
        """Make room for more of a frame whose buffer is full; return False if it has to wait for `on_room`."""
        if self._may_grow(large):
            self._grow(large)
            return True
        if not self._waiting:
            self._waiting_log.warning(
                "Large requests wait for memory: %d of %d bytes (queued.max.request.bytes) are used, %d are incomplete",
                self.held_bytes + self.queued_bytes,
                self.limit_bytes,
                len(self._frames),
            )
        self._waiting[large] = self._frames[large]
        self._review_soon()
        if self._rounds is None:
            self._rounds = self._call_later(_ROUND_S, self._on_round)
        return False

    def release(self, large: LargeFrame) -> None:
        """End a served frame. Nothing refers to its memory, which is reused."""
        self.drop(large)
        self._buffers.give_back(large.buffer)

    def drop(self, large: LargeFrame) -> None:
        """End a frame without reusing its memory."""
        del self._frames[large]
        self.held_bytes -= large.held_bytes
        if self._beyond is large:
            self._beyond = None
        if self._waiting:
            self._waiting.pop(large, None)
            self._review_soon()

    # -- growth -------------------------------------------------------------------------------------------------------

    def _excess(self, more_bytes: int) -> int:
        """Return by how many bytes the total would exceed the limit; 0 or less if it would not."""
        return self.held_bytes + self.queued_bytes + more_bytes - self.limit_bytes if self.limit_bytes > 0 else 0

    def _may_grow(self, large: LargeFrame) -> bool:
        excess = self._excess(self._buffers.next_size(large.size, large.filled) - large.held_bytes)
        if excess <= 0:
            return True
        # With queued bytes, the excess may exceed the frame: wait for those, which end without the clients' help.
        return large is self._beyond and (excess <= self._buffers.size_of(large.size) or not self.queued_bytes)

    def _grow(self, large: LargeFrame) -> None:
        before = large.held_bytes
        larger = self._buffers.take(self._buffers.next_size(large.size, large.filled))
        self._buffers.give_back(large.move(larger))
        self.held_bytes += large.held_bytes - before

    def _review_soon(self) -> None:
        if self._waiting and not self._review_is_due and not self._is_stuck():
            self._review_is_due = True
            self._turn.at_end(self._review)

    def _is_stuck(self) -> bool:
        """Whether no waiting frame can grow: the one beyond the limit is still growing, and almost nothing is free."""
        under_way = self._beyond is not None and self._beyond not in self._waiting
        return under_way and self._excess(SMALLEST_FRAME_BUFFER) > 0

    def _review(self) -> None:
        """Let waiting frames grow, as far as there is memory."""
        self._review_is_due = False
        for large in sorted(self._waiting, key=lambda each: each.size - each.filled):
            if self._is_stuck():
                break
            connection = self._waiting[large]
            if connection.is_held_back:  # it calls `grow` again once it may be served
                del self._waiting[large]
                continue
            if self._beyond is None and not self._may_grow(large):
                self._beyond = large
            if self._may_grow(large):
                del self._waiting[large]
                self._grow(large)
                connection.on_room()

    # -- idle senders -------------------------------------------------------------------------------------------------

    def _on_round(self) -> None:
        self._rounds = None
        idle: list[LargeFrame] = []
        for large, connection in self._frames.items():
            is_served = large.complete and not connection.is_held_back  # its memory is released in this turn
            is_received = large.filled - large.seen >= _LEAST_BYTES
            if is_served or is_received or large in self._waiting or connection.is_blocked_by_broker:
                large.seen, large.idle_rounds = large.filled, 0
            else:
                large.idle_rounds += 1
                if large.idle_rounds >= _ROUNDS:
                    idle.append(large)
        self._review()
        for large in sorted(idle, key=lambda each: each.idle_rounds, reverse=True):
            if not self._waiting:
                break
            connection = self._frames[large]
            self._closing_log.warning(
                "Connection %s is closed: %d of %d bytes of a request have arrived, almost none in the last %d s, and "
                "other requests wait for memory (queued.max.request.bytes)",
                connection,
                large.filled,
                large.size,
                large.idle_rounds * _ROUND_S,
            )
            connection.transport.abort()
            self._review()
        if self._waiting:
            self._rounds = self._call_later(_ROUND_S, self._on_round)
