"""Bound a member's start: the wait for a controller, and the whole start."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.membership.discovery import bootstrap_endpoints
from broker.membership.progress import Progress
from broker.process.start_errors import CannotStart
from config import BrokerConfig
from runtime.timers import Timers

log = logging.getLogger(__name__)

#: A start that waits longer for a controller logs it.
_PATIENCE_MS = 1_000


async def in_time(
    config: BrokerConfig,
    timers: Timers,
    progress: Progress,
    is_reached: Callable[[], bool],
    reason: Callable[[], str | None],
) -> None:
    """Wait for a stage that needs a controller, for initial.broker.registration.timeout.ms. Raises CannotStart.

    Args:
        reason: returns why the last request failed.
    """
    timeout_ms = config.get_int("initial.broker.registration.timeout.ms")
    listener = config.listening.to_controllers
    assert listener is not None  # config/membership.py checks that it has a name
    name, protocol = listener
    servers = ", ".join(f"{each.host}:{each.port}" for each in bootstrap_endpoints(config))

    def on_timeout() -> None:
        text = (
            f"no controller answered for {timeout_ms} ms ({servers}): {reason() or 'no response'}. Check that they run,"
            f" and that {protocol} is the protocol of their listener {name} (listener.security.protocol.map)"
        )
        progress.fail(CannotStart(text))

    def on_delay() -> None:
        log.info("Waiting up to %d ms for a controller (%s): %s", timeout_ms, servers, reason() or "no response")

    bounds = timers.call_later(timeout_ms, on_timeout), timers.call_later(_PATIENCE_MS, on_delay)
    try:
        await progress.until(is_reached)
    finally:
        for bound in bounds:
            bound.cancel()


def bound_start(config: BrokerConfig, timers: Timers, progress: Progress) -> Callable[[], None]:
    """End a start that takes longer than server.max.startup.time.ms. Returns the function that lifts the bound."""
    key = "server.max.startup.time.ms"
    most_ms = config.get_int(key)
    if most_ms >= 1 << 40:  # Kafka's default is for ever; a loop cannot wait so long
        return lambda: None
    return timers.call_later(
        most_ms, lambda: progress.fail(CannotStart(f"the start took longer than {key}={most_ms}"))
    ).cancel
