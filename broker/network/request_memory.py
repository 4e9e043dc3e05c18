"""Memory for requests that have not arrived whole: a budget that all connections of a loop share.

What waits for memory are large frames, for more than one read brings (128 KiB). Who sends small requests is received
from and served in any case, whatever others have under way.

Rules:
1. A frame grows while all that is held stays within the limit. One that may not is received no more, and waits.
2. Where memory is free again those that wait go on, those nearest to their end first. One at a time may exceed the
   limit, by its own size at most: of those that could not go on otherwise, the one nearest to its end when its turn
   comes. So there is always one that gets done, and frees what it has.
3. While any wait, clients that have begun a large frame and do not send on lose their connections, those that have
   been idle longest first, until none waits.

So at most there is held: the limit, one frame, and what two reads bring (256 KiB) of each connection.
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

# While frames wait for memory it is looked so often who sends on, ...
_ROUND_S = 1.0
# ... and who has brought less than so much in so many rounds makes room: a lost packet takes a second or two to be
# sent again, a slow line of 1 Mbit/s brings ten times as much.
_ROUNDS = 5
_LEAST_BYTES = 64 * 1024


class FrameSender(Protocol):
    """A connection of which a large frame is received."""

    transport: Transport

    @property
    def is_held_back(self) -> bool:
        """Whether no request would be started now, whatever arrived."""

    @property
    def waits_for_us(self) -> bool:
        """Whether nothing that the client could do would have its requests received and served."""

    def on_room(self) -> None:
        """There is memory for more of the frame."""


class RequestMemory:
    """Who holds how much, and who waits."""

    def __init__(self, turn: Turn, call_later: Callable[[float, Callable[[], None]], TimerHandle]) -> None:
        self.limit_bytes = -1  # queued.max.request.bytes; -1 is no limit
        self.held_bytes = 0  # by connections
        self.queued_bytes = 0  # of requests that wait for a worker: given back whatever clients do
        self._turn = turn
        self._call_later = call_later
        self._buffers = FrameBuffers()
        self._frames: dict[LargeFrame, FrameSender] = {}
        self._waiting: dict[LargeFrame, FrameSender] = {}
        self._beyond: LargeFrame | None = None  # may exceed the limit
        self._review_is_due = False
        self._rounds: TimerHandle | None = None
        self._waiting_log = LimitedLog(log, per_second=1)
        self._closing_log = LimitedLog(log)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is received that could wait with the client."""
        return 0 < self.limit_bytes < self.held_bytes + self.queued_bytes

    @property
    def waiting_count(self) -> int:
        """Frames that are not received, for want of memory."""
        return len(self._waiting)

    def hold(self, more_bytes: int) -> None:
        """A connection holds so much more (or less) beside large frames."""
        self.held_bytes += more_bytes
        if more_bytes < 0 and self._waiting:
            self._review_soon()

    def queue(self, more_bytes: int) -> None:
        """So much more (or less) of requests waits for a worker."""
        self.queued_bytes += more_bytes
        if more_bytes < 0 and self._waiting:
            self._review_soon()

    def close(self) -> None:
        """Look after nobody any more."""
        if self._rounds is not None:
            self._rounds.cancel()
            self._rounds = None

    # -- large frames --------------------------------------------------------------------------------------------------

    def begin(self, connection: FrameSender, size: int, head: memoryview) -> LargeFrame:
        """A frame of `size` bytes with its length has begun; memory for `head`, what has arrived, there is always."""
        buffer_bytes = self._buffers.next_size(size, len(head))
        if self._excess(buffer_bytes) > 0:
            buffer_bytes = self._buffers.size_of(len(head))
        large = LargeFrame(size, head, self._buffers.take(buffer_bytes))
        self._frames[large] = connection
        self.held_bytes += large.held_bytes
        return large

    def grow(self, large: LargeFrame) -> bool:
        """Make room for more of a frame, whose room is full; False when it has to wait for `FrameSender.on_room`."""
        if self._may_grow(large):
            self._grow(large)
            return True
        if not self._waiting:
            self._waiting_log.warning(
                "Large requests wait for memory: %d of %d bytes (queued.max.request.bytes) are held, %d are under way",
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
        """A frame was served, and nothing refers to its memory: that serves the next ones."""
        self.drop(large)
        self._buffers.give_back(large.buffer)

    def drop(self, large: LargeFrame) -> None:
        """A frame is of no use any more."""
        del self._frames[large]
        self.held_bytes -= large.held_bytes
        if self._beyond is large:
            self._beyond = None
        if self._waiting:
            self._waiting.pop(large, None)
            self._review_soon()

    # -- who may go on -------------------------------------------------------------------------------------------------

    def _excess(self, more_bytes: int) -> int:
        """By how much the limit would be exceeded; 0 or less where it would not be."""
        return self.held_bytes + self.queued_bytes + more_bytes - self.limit_bytes if self.limit_bytes > 0 else 0

    def _may_grow(self, large: LargeFrame) -> bool:
        excess = self._excess(self._buffers.next_size(large.size, large.filled) - large.held_bytes)
        if excess <= 0:
            return True
        # More than a frame is exceeded by where much is queued: that is given back whatever clients do, and waited for.
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
        """Whether nobody who waits could go on: the one beyond the limit is under way, and next to nothing is free."""
        under_way = self._beyond is not None and self._beyond not in self._waiting
        return under_way and self._excess(SMALLEST_FRAME_BUFFER) > 0

    def _review(self) -> None:
        """Let those go on for whom there is memory now."""
        self._review_is_due = False
        for large in sorted(self._waiting, key=lambda each: each.size - each.filled):
            if self._is_stuck():
                break
            connection = self._waiting[large]
            if connection.is_held_back:  # it asks again once it may be served
                del self._waiting[large]
                continue
            if self._beyond is None and not self._may_grow(large):
                self._beyond = large
            if self._may_grow(large):
                del self._waiting[large]
                self._grow(large)
                connection.on_room()

    # -- who does not send on ------------------------------------------------------------------------------------------

    def _on_round(self) -> None:
        self._rounds = None
        idle: list[LargeFrame] = []
        for large, connection in self._frames.items():
            is_served = large.complete and not connection.is_held_back  # in this turn
            is_received = large.filled - large.seen >= _LEAST_BYTES
            if is_served or is_received or large in self._waiting or connection.waits_for_us:
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
                "Connection %s is closed: %d of %d bytes of a request have come, next to none of them in %d s, and "
                "others wait for memory (queued.max.request.bytes)",
                connection,
                large.filled,
                large.size,
                large.idle_rounds * _ROUND_S,
            )
            connection.transport.abort()
            self._review()
        if self._waiting:
            self._rounds = self._call_later(_ROUND_S, self._on_round)
