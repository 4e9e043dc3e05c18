"""A queue of answers that are sent in the order of their requests, from the first request that waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from broker.network.output_queue import release
from broker.requests.dispatcher import Waiting
from protocol.schema import Chunk

Answer: TypeAlias = "bytes | list[Chunk] | Waiting | None"

#: Requests that wait without muting, and answers behind them, above which they mute.
_LIMIT = 64


class AnswerQueue(deque[Waiting | list[Chunk]]):
    """The queue of one connection. It begins with a request that waits, and is empty if none does: most of the time."""

    __slots__ = ()

    @property
    def waiting_count(self) -> int:
        """The number of requests that were started and are not answered yet."""
        return sum(1 for each in self if isinstance(each, Waiting))

    @property
    def is_parked(self) -> bool:
        """Whether a request waits for an event, and all behind it for its answer."""
        return any(isinstance(each, Waiting) and each.deferred.mutes for each in self)

    @property
    def is_full(self) -> bool:
        """Whether no more requests may be started, even if none of these mutes."""
        return len(self) >= _LIMIT

    def take_ready(
        self, out: list[Chunk], finish: Callable[[Waiting], Answer], on_done: Callable[[object], None]
    ) -> None:
        """Move finished answers into `out`, up to the first that is not finished. Raises what `finish` raises.

        Args:
            finish: makes the answer of a request whose Deferred is done; the answer may have to wait again.
            on_done: called when that wait is over.
        """
        while self:
            answer: Answer = self[0]
            if isinstance(answer, Waiting):
                if not answer.deferred.done:
                    return
                answer = finish(answer)
                if isinstance(answer, Waiting):
                    self[0] = answer
                    answer.deferred.add_done_callback(on_done)
                    continue
            self.popleft()
            if answer is not None:
                out += [answer] if isinstance(answer, bytes) else answer

    def drop(self) -> None:
        """Drop all answers: the client has disconnected."""
        dropped = list(self)
        self.clear()
        for each in dropped:
            if isinstance(each, Waiting):
                each.deferred.cancel()
            else:
                release(each)
