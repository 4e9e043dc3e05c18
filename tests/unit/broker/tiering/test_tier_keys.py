"""Keys of tiered storage reach the parts that they are for, also while the broker runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.tiering.jobs import Jobs
from broker.tiering.steps import Steps
from broker.tiering.threads import TierThreads
from broker.tiering.tier import QUOTAS, make_quota
from config import BrokerConfig, load
from remote.errors import Unreachable
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop

POOLS = {
    "copying": "remote.log.manager.copier.thread.pool.size",
    "deleting": "remote.log.manager.expiration.thread.pool.size",
    "reading": "remote.log.reader.threads",
}


@pytest.fixture
def config() -> BrokerConfig:
    return load(overrides=dict.fromkeys(POOLS.values(), "2"))


@pytest.fixture
def threads(config: BrokerConfig) -> Iterator[TierThreads]:
    threads = TierThreads(config, FakeLoop())  # type: ignore[arg-type]
    yield threads
    threads.close()


def most_at_once(pool: Callable[..., Any], wanted: int) -> int:
    """Return how many of more calls than `wanted` run at once: they meet at a barrier of `wanted`."""
    lock, running, most = threading.Lock(), 0, 0
    barrier, done = threading.Barrier(wanted), threading.Semaphore(0)

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(30)
        with lock:
            running -= 1
        done.release()

    for _ in range(2 * wanted):
        pool(call)
    for _ in range(2 * wanted):
        assert done.acquire(timeout=30)
    return most


@pytest.mark.parametrize("name", POOLS)
def test_threads(name: str, config: BrokerConfig, threads: TierThreads) -> None:
    """So many calls run at once, and no more; the number is dynamic."""
    pool = getattr(threads, name)

    assert most_at_once(pool, 2) == 2
    config.apply_dynamic({POOLS[name]: "3"}, {})
    assert most_at_once(pool, 3) == 3


@pytest.mark.parametrize("kind", QUOTAS)
def test_quotas(kind: str) -> None:
    """The rate over all windows; it changes at once."""
    rate, windows, seconds = QUOTAS[kind]
    config = load(overrides={rate: "100", windows: "3", seconds: "2"})
    quota = make_quota(config, kind)

    quota.note(500, 0)
    assert quota.delay_ms(0) == 3000, "500 bytes are within the rate after 5 s, and a window counts as 2 s"
    config.apply_dynamic({rate: "10"}, {})
    assert quota.delay_ms(0) == 6000, "the time in which three windows of two seconds have passed"


def failing() -> Steps[None]:
    raise Unreachable("key", "no answer")
    yield


def test_jitter() -> None:
    """The pauses of 100 jobs after their first failure are spread evenly around 1,000 ms."""
    loop = FakeLoop()
    retry = "remote.log.manager.task.retry"
    config = load(overrides={f"{retry}.jitter": "0.5", f"{retry}.backoff.ms": "1000"})
    begun: list[int] = []

    def steps() -> Steps[None]:
        begun.append(loop.clock.monotonic_ms())
        return failing()

    jobs = Jobs(config, Timers(loop, loop.clock), "done", monotonic=lambda: 0)
    start_ms = loop.clock.monotonic_ms()
    for number in range(100):
        jobs.begin(number, steps)
    del begun[:]
    loop.advance(499)
    assert not begun
    loop.advance(1001)
    first = [at_ms - start_ms for at_ms in begun if at_ms - start_ms <= 1500]
    assert len(first) >= 100
    assert min(first) < 800
    assert max(first) > 1200
