"""One run of the comparison: the brokers, the measured time, and the topics created so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from bench.comparison import generator
from bench.comparison.brokers import create
from bench.comparison.figures import Category, Figure
from bench.comparison.generator import GeneratorFailed, Outcomes
from bench.comparison.plan import Client
from tests.support.brokers import RunningBroker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """Brokers, ours first and perhaps alone; `rounds` of `seconds` each, after `warm_s` of the same load."""

    brokers: Sequence[RunningBroker]
    rounds: int
    seconds: float
    warm_s: float
    _topics: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def topic(self, name: str, partitions: int, fill: Callable[[RunningBroker], object] | None = None) -> None:
        """Create the topic if it is missing, and fill it once."""
        if name not in self._topics:
            self._topics.add(name)
            for broker in self.brokers:
                create(broker, name, partitions)
                if fill:
                    fill(broker)

    def new_name(self, prefix: str) -> str:
        """Return an unused name."""
        return f"{prefix}-{next(self._numbers)}"

    def alternate(self, measure_once: Callable[[RunningBroker, float], T]) -> list[list[T]]:
        """Return for each broker the results of `measure_once(broker, seconds)`, one a round; the brokers take turns.

        A round in which Apache Kafka fails (out of memory, for example) is reported and left out.

        Raises GeneratorFailed if pybroker fails.
        """
        if self.warm_s:
            self._round(measure_once, self.warm_s)
        results: list[list[T]] = [[] for _ in self.brokers]
        for _ in range(self.rounds):
            for values, one in zip(results, self._round(measure_once, self.seconds), strict=True):
                values += one
        return results

    def _round(self, measure_once: Callable[[RunningBroker, float], T], seconds: float) -> list[list[T]]:
        """Return a list for each broker: its value, or nothing if Apache Kafka failed."""
        results: list[list[T]] = []
        for broker in self.brokers:
            try:
                results.append([measure_once(broker, seconds)])
            except GeneratorFailed as end:
                if broker is self.brokers[0]:
                    raise
                print(f"left out: {end}", file=sys.stderr, flush=True)
                results.append([])
        return results

    def drive(self, clients: Sequence[Client]) -> list[list[Outcomes]]:
        """Run the same clients in all rounds."""
        return self.alternate(lambda broker, seconds: generator.run(broker, seconds, clients))


def make_figure(
    category: Category,
    load: str,
    name: str,
    results: Sequence[Sequence[T]],
    value: Callable[[T], float],
    *,
    more_is_better: bool = False,
) -> Figure:
    """Make a figure by applying `value` to the result of each round of each broker."""
    sides = [tuple(value(each) for each in rounds) for rounds in results]
    ours, kafka = sides[0], sides[1] if len(sides) > 1 else ()
    return Figure(category, load, name, ours, kafka, more_is_better, kafka_broke_off=len(sides) > 1 and not kafka)
