"""Answers that wait until what they tell of is on the disk, where flush.messages asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.coordinators.shard_log import APPEND_ERRORS
from protocol.errors import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, gather
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.requests.served_api import Reply
    from runtime.timers import Timers


class FlushGate:
    """The flushes of a coordinator's partitions for which nobody has waited yet.

    `timeout_ms`: how long an answer waits for one. What it tells of may be on the disk later, or is there already: a
    client that is told COORDINATOR_NOT_AVAILABLE tries again.
    """

    def __init__(self, timers: Timers, timeout_ms: int) -> None:
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._flushes: dict[int, Deferred[None]] = {}

    @property
    def is_due(self) -> bool:
        """Whether there are any."""
        return bool(self._flushes)

    def is_due_at(self, partition: int) -> bool:
        """Whether there is one of a partition, and it is not done: a timer's has nobody who would wait for it."""
        flush = self._flushes.get(partition)
        return flush is not None and not flush.done

    def begun(self, partition: int, flush: Deferred[None]) -> None:
        """What a partition has now is on its way to the disk. The last flush has all that those before it have."""
        self._flushes[partition] = flush

    def answer(
        self, partitions: Iterable[int | None], response: Struct, failed: Callable[[ErrorCode], Struct]
    ) -> Reply:
        """`response`, once what was written to these partitions is on the disk; what others have is no reason to wait.

        `failed(code)` instead where that fails, or takes too long.
        """
        taken = (self._flushes.pop(partition, None) for partition in set(partitions) if partition is not None)
        flushes = [flush for flush in taken if flush is not None and not flush.done]
        if not flushes:
            return response
        answered: Deferred[Struct] = Deferred()
        timer = self._timers.call_later(
            self._timeout_ms, lambda: answered.resolve(failed(APPEND_ERRORS[ErrorCode.REQUEST_TIMED_OUT]))
        )

        def on_flushed(done: Deferred[list[None]]) -> None:
            timer.cancel()
            if answered.done:
                return
            try:
                done.result()
            except LogOffline:
                answered.resolve(failed(APPEND_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR]))
            except Exception as error:
                answered.fail(error)
            else:
                answered.resolve(response)

        gather(flushes).add_done_callback(on_flushed)
        return answered
