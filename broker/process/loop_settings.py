"""Settings of a process that runs an event loop: garbage collection, and unhandled errors."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("broker.lifecycle")

# Reference counting frees the objects of requests. The collector is only needed for cycles, which are rare here. A
# collection of young objects costs the loop some 10 us for each thousand, and a full one tens of milliseconds.
_GC_THRESHOLDS = (20_000, 20, 100)


class LogOpener(Protocol):
    """A component that opens logs after the start."""

    on_opened: Callable[[], object]


class ModuleLoader(Protocol):
    """A component that loads modules after the start."""

    on_done: Callable[[], object]


def reduce_garbage_collection(opening: LogOpener, imports: ModuleLoader) -> None:
    """Freeze the objects of the start, and collect rarely from now on. Objects of logs opened later are frozen, too."""
    gc.freeze()
    opening.on_opened = imports.on_done = gc.freeze
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


def on_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log an error that a callback of the loop did not handle."""
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
