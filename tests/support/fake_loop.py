"""Doubles of the clock and of the event loop: a test advances the time and runs the calls."""

from __future__ import annotations

from collections.abc import Callable

from runtime.clock import Clock


class FakeClock(Clock):
    """Both clocks change only by `advance`, by the same amount."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic_ms: int = 5_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds


class FakeHandle:
    """The result of call_later."""

    def __init__(self, due_ms: int, callback: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def when(self) -> float:
        return self.due_ms / 1000


class FakeLoop:
    """`call_soon` and `call_later` of an event loop; `turn()` and `advance()` run what is due."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.handles: list[FakeHandle] = []
        self._soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: object) -> None:
        """Accept a callback from a thread, which the test plays."""
        self.call_soon(lambda: callback(*arguments))

    def call_later(self, delay: float, callback: Callable[[], object]) -> FakeHandle:
        handle = FakeHandle(self.clock.monotonic_ms() + round(delay * 1000), callback)
        self.handles.append(handle)
        return handle

    def turn(self) -> None:
        """Run the callbacks of this turn; those that they add wait for the next turn."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    def settle(self) -> None:
        """Run turns until no callback is left."""
        while self._soon:
            self.turn()

    def advance(self, milliseconds: int) -> None:
        """Advance the time; timers that fall due run at their times."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while True:
            due = [each for each in self.handles if each.callback is not None and each.due_ms <= end_ms]
            if not due:
                break
            first = min(due, key=lambda each: each.due_ms)
            self.clock.advance(max(0, first.due_ms - self.clock.monotonic_ms()))
            self.handles.remove(first)
            assert first.callback is not None
            first.callback()
            self.settle()
        self.handles = [each for each in self.handles if each.callback is not None]
        self.clock.advance(end_ms - self.clock.monotonic_ms())
