"""Deferred: a reply that comes later.

A handler that cannot answer at once returns a `Deferred` and resolves it when it can, always on the event loop's
thread. It is less than an asyncio future on purpose: callbacks run inside `resolve`, nothing is scheduled, nothing is
awaited, and a client that hangs up cancels it. A callback that fails is logged: it is neither the others' business nor
that of who resolves.
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
    """One value or one error, some time from now.

    Args:
        mutes: nothing of the same connection is started before this is done, as in Kafka, which mutes the channel.
            False lets later requests start, for work whose order is already settled; their answers still wait for
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
        """A deferred that is done already."""
        deferred: Deferred[T] = cls()
        deferred.resolve(value)
        return deferred

    @property
    def done(self) -> bool:
        """Whether it is resolved, failed or cancelled."""
        return self._state != _PENDING

    @property
    def cancelled(self) -> bool:
        """Whether the client went away first."""
        return self._state == _CANCELLED

    def result(self) -> T:
        """The value; raises the error it failed with, or RuntimeError when there is neither."""
        if self._state == _RESOLVED:
            return self._value  # type: ignore[return-value]
        if self._error is not None:
            raise self._error
        raise RuntimeError("cancelled" if self._state == _CANCELLED else "not done yet")

    def resolve(self, value: T) -> None:
        """Give the value and run the callbacks. Ignored after a cancel; RuntimeError when it was done before."""
        if self._settle(_RESOLVED):
            self._value = value
            self._run_callbacks()

    def fail(self, error: BaseException) -> None:
        """Give an error instead of a value; otherwise as `resolve`."""
        if self._settle(_FAILED):
            self._error = error
            self._run_callbacks()

    def cancel(self) -> None:
        """Nobody wants the value any more: run what `on_cancel` was given. No effect when done."""
        if self._state != _PENDING:
            return
        self._state = _CANCELLED
        callbacks, self._cancel_callbacks, self._callbacks = self._cancel_callbacks, None, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:
                log.exception("A call failed that a cancel leads to")

    def add_done_callback(self, callback: Callable[[Deferred[T]], None]) -> None:
        """Call `callback(self)` once resolved or failed; at once when that is so already."""
        if self._state in (_RESOLVED, _FAILED):
            callback(self)
        elif self._state == _PENDING:
            if self._callbacks is None:
                self._callbacks = [callback]
            else:
                self._callbacks.append(callback)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when the client hangs up first; at once when it has."""
        if self._state == _CANCELLED:
            callback()
        elif self._state == _PENDING:
            if self._cancel_callbacks is None:
                self._cancel_callbacks = [callback]
            else:
                self._cancel_callbacks.append(callback)

    def then(self, function: Callable[[T], U]) -> Deferred[U]:
        """A deferred of `function(value)`; errors of either pass through, a cancel passes back to this one."""
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
        """Take over the value or the error of one that is done."""
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
                log.exception("A call failed that an answer leads to")


def after(
    first: Deferred[Any], serve: Callable[[], T | Deferred[T] | None], *, even_if_cancelled: bool = False
) -> Deferred[T]:
    """What `serve()` gives, now or later, once `first` is done; errors of either pass through.

    It is called for a client that is still there; `even_if_cancelled`: also for one that has hung up.
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
                log.exception("A call failed whose client is gone")
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
    """A deferred of all their values, in order; fails with the first error. Done at once for an empty list."""
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
    """Done when all of them are, whatever became of each; a cancel is not passed on. At once for an empty list."""
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
    """Wait for it from a coroutine; what it was resolved with. Raises what it failed with."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    deferred.add_done_callback(lambda _: done.set_result(None))
    await done
    return deferred.result()
