"""Wait for the stages of a member's start, which callbacks of other parts reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Progress:
    """The start of a member. A failure ends it, whatever it waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._error: BaseException | None = None
        self._changed: asyncio.Future[None] | None = None

    async def until(self, is_reached: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked after each `changed`. Raises the error of `fail`."""
        while True:
            if self._error is not None:
                raise self._error
            if is_reached():
                return
            self._changed = self._loop.create_future()
            await self._changed

    def changed(self) -> None:
        """Check the condition again."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End the start with this error."""
        if self._error is None:
            self._error = error
        self.changed()
