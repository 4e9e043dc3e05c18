"""Deferred: a result that is available later.

A handler that cannot answer at once returns a `Deferred` and resolves it later, always on the event loop's thread. It
does less than an asyncio future: `resolve` calls the callbacks at once, nothing is scheduled, and a client that
disconnects cancels it. If a callback fails, the error is logged and concerns neither the other callbacks nor the caller
of `resolve`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

_PENDING, _RESOLVED, _FAILED, _CANCELLED = range(4)


class Deferred(Generic[T]):
    """One value or one error, available later.

    Args:
        mutes: while it is pending, no later request of the connection starts, as Kafka mutes the channel. With False
            later requests may start, because the order of this work is already settled. Their responses still wait for
            this one.
    """

    __slots__ = ("_callbacks", "_cancel_callbacks", "_error", "_state", "_value", "mutes")

    def __init__(self, mutes: bool = True) -> None:
        self.mutes = mutes
        self._state = _PENDING
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Deferred[T]], None]] | None = None
        self._cancel_callbacks: list[Callable[[], None]] | None = None

    @classmethod
    def resolved(cls, value: T) -> Deferred[T]:
        """Return a Deferred that is already resolved."""
        deferred: Deferred[T] = cls()
        deferred.resolve(value)
        return deferred

    @property
    def done(self) -> bool:
        """Whether it is resolved, failed or cancelled."""
        return self._state != _PENDING

    @property
    def cancelled(self) -> bool:
        """Whether the client disconnected first."""
        return self._state == _CANCELLED

    def result(self) -> T:
        """Return the value. Raises the error it failed with, or RuntimeError if it is pending or cancelled."""
        if self._state == _RESOLVED:
            return self._value  # type: ignore[return-value]
        if self._error is not None:
            raise self._error
        raise RuntimeError("cancelled" if self._state == _CANCELLED else "not done yet")

    def resolve(self, value: T) -> None:
        """Set the value and call the callbacks. Ignored after a cancel. Raises RuntimeError if it is done already."""
        if self._settle(_RESOLVED):
            self._value = value
            self._run_callbacks()

    def fail(self, error: BaseException) -> None:
        """Set an error instead of a value; otherwise like `resolve`."""
        if self._settle(_FAILED):
            self._error = error
            self._run_callbacks()

    def cancel(self) -> None:
        """Cancel: call the callbacks of `on_cancel`, because the value is no longer needed. No effect if it is done."""
        if self._state != _PENDING:
            return
        self._state = _CANCELLED
        callbacks, self._cancel_callbacks, self._callbacks = self._cancel_callbacks, None, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:
                log.exception("A callback of a cancelled request failed")

    def add_done_callback(self, callback: Callable[[Deferred[T]], None]) -> None:
        """Call `callback(self)` when it is resolved or failed; now if it already is."""
        if self._state in (_RESOLVED, _FAILED):
            callback(self)
        elif self._state == _PENDING:
            if self._callbacks is None:
                self._callbacks = [callback]
            else:
                self._callbacks.append(callback)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when it is cancelled; now if it already is."""
        if self._state == _CANCELLED:
            callback()
        elif self._state == _PENDING:
            if self._cancel_callbacks is None:
                self._cancel_callbacks = [callback]
            else:
                self._cancel_callbacks.append(callback)

    def then(self, function: Callable[[T], U]) -> Deferred[U]:
        """Return a Deferred of `function(value)`.

        Errors of both are passed on, and a cancel is passed back to this one.
        """
        following: Deferred[U] = Deferred(self.mutes)

        def relay(source: Deferred[T]) -> None:
            if following.done:
                return
            try:
                value = function(source.result())
            except Exception as error:
                following.fail(error)
            else:
                following.resolve(value)

        self.add_done_callback(relay)
        following.on_cancel(self.cancel)
        return following

    def settle_as(self, done: Deferred[T]) -> None:
        """Take over the value or the error of a Deferred that is done."""
        try:
            self.resolve(done.result())
        except Exception as error:
            self.fail(error)

    def _settle(self, state: int) -> bool:
        if self._state == _CANCELLED:
            return False
        if self._state != _PENDING:
            raise RuntimeError("a deferred is resolved only once")
        self._state = state
        return True

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks, self._cancel_callbacks = self._callbacks, None, None
        for callback in callbacks or ():
            try:
                callback(self)
            except Exception:
                log.exception("A callback of an answered request failed")


def after(
    first: Deferred[Any], serve: Callable[[], T | Deferred[T] | None], *, even_if_cancelled: bool = False
) -> Deferred[T]:
    """Return a Deferred of the result of `serve()`, which is called once `first` is done. Errors of both are passed on.

    `serve` is not called for a client that has disconnected, except with `even_if_cancelled`.
    """
    answered: Deferred[T] = Deferred()

    def go_on(done: Deferred[Any]) -> None:
        if answered.done and not even_if_cancelled:
            return
        try:
            done.result()
            reply = serve()
        except Exception as error:
            if answered.cancelled:
                log.exception("A request failed whose client has disconnected")
            answered.fail(error)
            return
        if isinstance(reply, Deferred):
            answered.on_cancel(reply.cancel)
            reply.add_done_callback(answered.settle_as)
        else:
            answered.resolve(reply)  # type: ignore[arg-type]  # None: no answer is to be sent

    first.add_done_callback(go_on)
    return answered


def gather(deferreds: list[Deferred[T]]) -> Deferred[list[T]]:
    """Return a Deferred of all values, in order. It fails with the first error. An empty list is done at once."""
    gathered: Deferred[list[T]] = Deferred()
    left = len(deferreds)

    def one_done(source: Deferred[T]) -> None:
        nonlocal left
        left -= 1
        if gathered.done:
            return
        try:
            source.result()
        except Exception as error:
            gathered.fail(error)
            return
        if left == 0:
            gathered.resolve([deferred.result() for deferred in deferreds])

    if not deferreds:
        gathered.resolve([])
    for deferred in deferreds:
        deferred.add_done_callback(one_done)
        gathered.on_cancel(deferred.cancel)
    return gathered


def settled(deferreds: list[Deferred[Any]], mutes: bool = True) -> Deferred[None]:
    """Return a Deferred that resolves when all are done, whether they failed or not. A cancel is not passed on."""
    all_done: Deferred[None] = Deferred(mutes)
    left = len(deferreds)

    def one_done(_: Deferred[Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_done.resolve(None)

    if not deferreds:
        all_done.resolve(None)
    for deferred in deferreds:
        deferred.add_done_callback(one_done)
    return all_done


async def outcome(deferred: Deferred[T]) -> T:
    """Wait in a coroutine until it is done, and return its value. Raises the error it failed with."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    deferred.add_done_callback(lambda _: done.set_result(None))
    await done
    return deferred.result()
