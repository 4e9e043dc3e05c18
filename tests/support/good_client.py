"""A well-behaved client beside misbehaving ones: is it served, how fast, and are all its records there?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from protocol.messages.metadata import METADATA
from tests.support.brokers import HOST
from tests.support.data_client import DataClient, batch

T = TypeVar("T")

TOPIC = "good"


def _value(number: int) -> bytes:
    return b"good-%08d" % number


class GoodClient:
    """Writes a record, reads it and asks for its topic, in rounds; measures each answer in milliseconds."""

    def __init__(self, port: int) -> None:
        self.client = DataClient(HOST, port)
        self.client.create_topic(TOPIC)
        self.times_ms: list[float] = []
        self.written = 0

    def work(self, rounds: int) -> None:
        """Work so many rounds."""
        for _ in range(rounds):
            value = _value(self.written)
            assert self._timed(lambda: self.client.produce(TOPIC, batch(value))) == self.written  # noqa: B023
            self.written += 1
            found = self._timed(lambda: self.client.fetch(TOPIC, self.written - 1))
            assert value in bytes(found.records)
            asked = [{"name": TOPIC}]
            [topic] = self._timed(lambda: self.client.call(METADATA, 12, topics=asked)).topics  # noqa: B023
            assert (topic.error_code, len(topic.partitions)) == (0, 1)

    def work_until(self, stopping: threading.Event, every_s: float = 0.005) -> None:
        """Work a round each `every_s` seconds, or as fast as the broker answers."""
        while not stopping.wait(every_s):
            self.work(1)

    def check(self) -> None:
        """Check that all written records are there, once and in order."""
        assert self.client.values(TOPIC) == [_value(number) for number in range(self.written)]

    def p99_ms(self) -> float:
        """Return the 99th percentile of the times."""
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.99)]

    def worst_ms(self) -> float:
        return max(self.times_ms)

    def _timed(self, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        answer = call()
        self.times_ms.append((time.perf_counter() - began) * 1000)
        return answer


class GoodThread(threading.Thread):
    """A thread with a good client beside the test; `finish` raises its failure."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.client = GoodClient(port)
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work until `finish`."""
        try:
            self.client.work_until(self._stopping)
        except BaseException as error:
            self._error = error

    def finish(self) -> GoodClient:
        """End the thread, and check that all written records are there."""
        self._stopping.set()
        self.join(120)
        assert not self.is_alive(), "the good client waits for an answer"
        if self._error is not None:
            raise self._error
        self.client.check()
        return self.client
