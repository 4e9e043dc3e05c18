"""Delay responses until the writes that they report may be relied on (broker/replicas/durability.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from broker.coordinators.shard_log import APPEND_ERRORS
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, after, gather, settled

if TYPE_CHECKING:
    from broker.requests.served_api import Reply
    from runtime.timers import Timers

T = TypeVar("T")


class CommitGate:
    """The waits for a coordinator's partitions that no response has waited for yet.

    `timeout_ms` limits how long a response waits. After a timeout the write may still become safe: the client gets
    COORDINATOR_NOT_AVAILABLE and retries.
    """

    def __init__(self, timers: Timers, timeout_ms: int) -> None:
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._waits: dict[int, Deferred[None]] = {}

    @property
    def is_due(self) -> bool:
        """Return whether there is any wait."""
        return bool(self._waits)

    def is_due_at(self, partition: int) -> bool:
        """Return whether writes to a partition are not safe yet. Writes by timers have no waiters."""
        safe = self._waits.get(partition)
        return safe is not None and not safe.done

    def begun(self, partition: int, safe: Deferred[None]) -> None:
        """Note what a partition's last writes wait for. The last wait of a partition covers the earlier ones."""
        self._waits[partition] = safe

    def answer(
        self, partitions: Iterable[int | None], response: Struct, failed: Callable[[ErrorCode], Struct]
    ) -> Reply:
        """Return `response` once the writes to these partitions may be relied on. Others are not waited for.

        The answer is `failed(code)` if a wait fails or takes too long, or fails with the error that it raises.
        """
        taken = (self._waits.pop(partition, None) for partition in set(partitions) if partition is not None)
        waits = [each for each in taken if each is not None and not each.done]
        if not waits:
            return response
        answered: Deferred[Struct] = Deferred()

        def refuse(code: ErrorCode) -> None:
            try:
                refusal = failed(APPEND_ERRORS.get(code, code))
            except Exception as error:  # the response has no field for an error
                answered.fail(error)
            else:
                answered.resolve(refusal)

        timer = self._timers.call_later(self._timeout_ms, lambda: refuse(ErrorCode.REQUEST_TIMED_OUT))

        def on_safe(done: Deferred[list[None]]) -> None:
            timer.cancel()
            if answered.done:
                return
            try:
                done.result()
            except Exception as error:
                code = error_code_of(error)
                if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    answered.fail(error)
                else:
                    refuse(code)
            else:
                answered.resolve(response)

        gather(waits).add_done_callback(on_safe)
        return answered


def once_safe(
    safe: Deferred[None] | None,
    serve: Callable[[], T | Deferred[T] | None],
    failed: Callable[[ErrorCode], T | Deferred[T] | None],
) -> Deferred[T] | None:
    """Return the answer of `serve()` after a wait, or of `failed(code)` if the wait fails; None if there is no wait.

    One of the two is called even if the client disconnects.
    """
    if safe is None:
        return None

    def serve_or_fail() -> T | Deferred[T] | None:
        try:
            safe.result()
        except Exception as error:
            code = error_code_of(error)
            return failed(APPEND_ERRORS.get(code, code))
        return serve()

    return after(settled([safe]), serve_or_fail, even_if_cancelled=True)
