"""Choose the event loop that the broker runs on."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger(__name__)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop if it is installed, else asyncio's own, which costs more for each wake-up."""
    try:
        import uvloop
    except ImportError:
        log.warning("uvloop is not installed: asyncio's own event loop is used instead")
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
