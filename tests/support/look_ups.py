"""Look-ups by time, step by step: how many turns they take, and what happens between two of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from protocol.records.compression import Codec
from storage.log.batch_search import BatchSearch, search_file
from storage.log.partition_log import PartitionLog
from storage.log.timestamps import Allowance, Steps, TimestampAndOffset, find_max_timestamp, find_timestamp
from storage.log_config import LogConfig
from tests.support.logs import T0, append, batch, open_log

T = TypeVar("T")

#: more records than are searched on the loop
LARGE = 600


class Driver:
    """Runs steps; counts turns and offloaded searches. `between(search)` is called before a search; its result, if any,
    is the outcome.
    """

    def __init__(self, a_turn: int, between: Callable[[BatchSearch], Any] = lambda search: None) -> None:
        self.allowance = Allowance()
        self.turns = self.searches = 0
        self._a_turn = a_turn
        self._between = between

    def run(self, steps: Steps[T]) -> T:
        go_on = partial(steps.send, None)
        try:
            while True:
                self.turns += 1
                self.allowance.left = self._a_turn
                search = go_on()
                go_on = partial(steps.send, None)
                if search is not None:
                    self.searches += 1
                    go_on = self._outcome(steps, search)
        except StopIteration as end:
            found: T = end.value
            return found

    def _outcome(self, steps: Any, search: BatchSearch) -> partial[Any]:
        try:
            return partial(steps.send, self._between(search) or search_file(search))
        except Exception as error:
            return partial(steps.throw, error)


def look_up(log: PartitionLog, timestamp: int | None, driver: Driver) -> TimestampAndOffset | None:
    """Look up an offset by timestamp; None: the largest timestamp."""
    if timestamp is None:
        return driver.run(find_max_timestamp(lambda: log, driver.allowance))
    return driver.run(find_timestamp(lambda: log, timestamp, driver.allowance))


def large(number: int = 0, codec: Codec = Codec.GZIP) -> bytearray:
    """Return a batch of LARGE records, a millisecond apart."""
    return batch(*[b"v"] * LARGE, timestamp=T0 + number * LARGE, codec=codec)


def large_segments(root: Path) -> PartitionLog:
    """Return a log of four segments of a large batch each; the last one is active."""
    log = open_log(root, LogConfig(segment_bytes=len(large())))
    for number in range(4):
        append(log, large(number))
    assert len(log.segments) == 4
    return log
