"""One who does nothing wrong beside others who do: is it served, how soon, and is all there that it has written?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.support.brokers import HOST
from tests.support.data_client import DataClient, batch

T = TypeVar("T")

TOPIC = "good"


def _value(number: int) -> bytes:
    return b"good-%08d" % number


class GoodClient:
    """Writes a record, reads it again and asks for its topic, in rounds; how long each answer took, in milliseconds."""

    def __init__(self, port: int) -> None:
        self.client = DataClient(HOST, port)
        self.client.create_topic(TOPIC)
        self.times_ms: list[float] = []
        self.written = 0

    def work(self, rounds: int) -> None:
        """So many rounds, and the next."""
        for _ in range(rounds):
            value = _value(self.written)
            assert self._timed(lambda: self.client.produce(TOPIC, batch(value))) == self.written  # noqa: B023
            self.written += 1
            found = self._timed(lambda: self.client.fetch(TOPIC, self.written - 1))
            assert value in bytes(found.records)
            asked = [MetadataRequestTopic(name=TOPIC)]
            [topic] = self._timed(lambda: self.client.call(METADATA, 12, topics=asked)).topics  # noqa: B023
            assert (topic.error_code, len(topic.partitions)) == (0, 1)

    def work_until(self, stopping: threading.Event, every_s: float = 0.005) -> None:
        """A round each `every_s` seconds, or as fast as it is served."""
        while not stopping.wait(every_s):
            self.work(1)

    def check(self) -> None:
        """All that it has written is there, once and in order."""
        assert self.client.values(TOPIC) == [_value(number) for number in range(self.written)]

    def p99_ms(self) -> float:
        """What all but one of a hundred answers were faster than."""
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.99)]

    def worst_ms(self) -> float:
        return max(self.times_ms)

    def _timed(self, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        answer = call()
        self.times_ms.append((time.perf_counter() - began) * 1000)
        return answer


class GoodThread(threading.Thread):
    """A good client at work beside its test; what it has failed with is raised by `finish`."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.client = GoodClient(port)
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Until `finish`."""
        try:
            self.client.work_until(self._stopping)
        except BaseException as error:
            self._error = error

    def finish(self) -> GoodClient:
        """Let it end, and see that all is there that it has written."""
        self._stopping.set()
        self.join(120)
        assert not self.is_alive(), "the good client waits for an answer"
        if self._error is not None:
            raise self._error
        self.client.check()
        return self.client
