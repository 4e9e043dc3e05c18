"""Settings of a process that runs an event loop: when garbage is collected, and what becomes of its errors."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("broker.lifecycle")

# Young objects of requests die by reference count; what the collector would look for are cycles, which are rare here.
# A collection of the young costs the loop 10 us or so for each thousand objects, one of everything tens of
# milliseconds.
_GC_THRESHOLDS = (20_000, 20, 100)


class OpensLogs(Protocol):
    """Opens logs after the start."""

    on_opened: Callable[[], object]


class LoadsModules(Protocol):
    """Loads modules after the start."""

    on_done: Callable[[], object]


def collect_garbage_seldom(opening: OpensLogs, imports: LoadsModules) -> None:
    """Freeze what the start has made, and collect seldom from now on; what later opened logs make is frozen, too."""
    gc.freeze()
    opening.on_opened = imports.on_done = gc.freeze
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


def on_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log what a callback of the loop did not handle."""
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
