"""The end of calls to remote storage: a stop waits for them, but not for those that hang."""

from __future__ import annotations

import asyncio
import threading

from broker.tiering.threads import closed_within


def test_a_stop_waits_for_calls_that_end() -> None:
    calls: list[int] = []
    assert asyncio.run(closed_within(60, lambda: calls.append(1)))
    assert calls == [1]


def test_a_stop_does_not_wait_for_a_call_that_hangs() -> None:
    hangs = threading.Event()

    def close() -> None:
        hangs.wait(60)

    assert not asyncio.run(closed_within(0, close))
    hangs.set()
