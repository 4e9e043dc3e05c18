"""Waits with a deadline, whose failure reports what was waited for and the last value."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_Errors = type[BaseException] | tuple[type[BaseException], ...]

TIMEOUT_S = 60.0
_UNSET = object()


def eventually(
    condition: Callable[[], T],
    message: object = "",
    *,
    until: Callable[[T], object] = bool,
    equal_to: object = _UNSET,
    retried: _Errors = (),
    timeout_s: float = TIMEOUT_S,
    interval_s: float = 0.02,
) -> T:
    """Call `condition` until its value is true, is `equal_to` one, or is accepted by `until`, and return that value.

    An exception of the types `retried` counts as a value that is not accepted; every other one is raised at once.
    Raises AssertionError after `timeout_s`, with `message`, or the result of `message()`, and the last value.
    """
    wait = _Wait(message, timeout_s, equal_to)
    while True:
        try:
            value = condition()
        except retried as error:
            wait.last = error
        else:
            if wait.is_over(value, until):
                return value
        wait.check()
        time.sleep(interval_s)


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]],
    message: object = "",
    *,
    until: Callable[[T], object] = bool,
    equal_to: object = _UNSET,
    retried: _Errors = (),
    timeout_s: float = TIMEOUT_S,
    interval_s: float = 0.005,
) -> T:
    """Wait as `eventually` does, while the event loop runs; `condition` may be a coroutine function."""
    wait = _Wait(message, timeout_s, equal_to)
    while True:
        try:
            found = condition()
            value: T = await found if isinstance(found, Awaitable) else found
        except retried as error:
            wait.last = error
        else:
            if wait.is_over(value, until):
                return value
        wait.check()
        await asyncio.sleep(interval_s)


def succeeds(_: object) -> bool:
    """Accept every value: for `until`, where only an exception is retried."""
    return True


class _Wait:
    """A deadline, and the last value of what is waited for."""

    def __init__(self, message: object, timeout_s: float, equal_to: object) -> None:
        self.last: object = None
        self._message = message
        self._timeout_s = timeout_s
        self._equal_to = equal_to
        self._deadline = time.monotonic() + timeout_s

    def is_over(self, value: T, until: Callable[[T], object]) -> bool:
        """Report whether the value is accepted, and keep it for the report of a failure."""
        self.last = value
        return bool(until(value) if self._equal_to is _UNSET else value == self._equal_to)

    def check(self) -> None:
        """Raise AssertionError once the deadline has passed."""
        if time.monotonic() <= self._deadline:
            return
        about = self._message() if callable(self._message) else self._message
        text = f"not within {self._timeout_s:g} s: {about or 'the condition'}\nlast value: {self.last!r}"
        if self._equal_to is not _UNSET:
            text += f"\nexpected: {self._equal_to!r}"
        raise AssertionError(text) from (self.last if isinstance(self.last, BaseException) else None)
