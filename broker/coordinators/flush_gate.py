"""Delay responses until the writes that they report are on disk, where flush.messages asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.coordinators.shard_log import APPEND_ERRORS
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, gather
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.requests.served_api import Reply
    from runtime.timers import Timers


class FlushGate:
    """The flushes of a coordinator's partitions that no response has waited for yet.

    `timeout_ms` limits how long a response waits for a flush. After a timeout the write may still reach the disk:
    the client gets COORDINATOR_NOT_AVAILABLE and retries.
    """

    def __init__(self, timers: Timers, timeout_ms: int) -> None:
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._flushes: dict[int, Deferred[None]] = {}

    @property
    def is_due(self) -> bool:
        """Return whether any flush is due."""
        return bool(self._flushes)

    def is_due_at(self, partition: int) -> bool:
        """Return whether an unfinished flush of a partition is due. Flushes by timers have no waiters."""
        flush = self._flushes.get(partition)
        return flush is not None and not flush.done

    def begun(self, partition: int, flush: Deferred[None]) -> None:
        """Note that a flush of a partition has begun. The last flush of a partition covers the earlier ones."""
        self._flushes[partition] = flush

    def answer(
        self, partitions: Iterable[int | None], response: Struct, failed: Callable[[ErrorCode], Struct]
    ) -> Reply:
        """Return `response` once the writes to these partitions are on disk. Other partitions are not waited for.

        The answer is `failed(code)` if a flush fails or takes too long.
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
