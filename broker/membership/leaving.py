"""The controlled shutdown of a member: it waits until the controller has moved its leadership away (KIP-631)."""

from __future__ import annotations

import asyncio
import logging

from broker.membership.lifecycle import MemberLifecycle
from broker.membership.progress import Progress
from config import BrokerConfig
from replication.lifecycle import LifecycleState
from runtime.clock import Clock
from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)


async def leave(
    lifecycle: MemberLifecycle,
    config: BrokerConfig,
    clock: Clock,
    timers: Timers,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Wait until the controller completes the shutdown, at most half of the time that a stop may take.

    Without an answer the wait ends after half a session, where Apache Kafka waits for five minutes: a controller that
    is back later fences the broker when its session ends, whether the broker has waited or not.
    """
    most_ms = config.get_int("pybroker.shutdown.timeout.ms") // 2
    patience_ms = min(most_ms, config.get_int("broker.session.timeout.ms") // 2)
    progress = Progress(loop)
    began_ms = clock.monotonic_ms()
    timer: Timer

    def watch() -> None:
        nonlocal timer
        now_ms = clock.monotonic_ms()
        due_ms = min(began_ms + most_ms, max(began_ms, lifecycle.answered_ms) + patience_ms)
        if now_ms >= due_ms:
            progress.fail(TimeoutError())
        else:
            timer = timers.call_later(due_ms - now_ms, watch)

    lifecycle.on_state = progress.changed
    watch()
    try:
        lifecycle.leave()
        await progress.until(lambda: lifecycle.state is LifecycleState.ENDED)
    except TimeoutError:
        waited_ms = clock.monotonic_ms() - began_ms
        log.warning(
            "No controller has completed the controlled shutdown within %d ms. The broker stops, and its partitions get"
            " other leaders once a controller has fenced it",
            waited_ms,
        )
    finally:
        timer.cancel()
