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
    _made: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def topic(self, name: str, partitions: int, fill: Callable[[RunningBroker], object] | None = None) -> None:
        """Create the topic if it is missing, and fill it once."""
        if name not in self._made:
            self._made.add(name)
            for broker in self.brokers:
                create(broker, name, partitions)
                if fill:
                    fill(broker)

    def new_name(self, prefix: str) -> str:
        """Return an unused name."""
        return f"{prefix}-{next(self._numbers)}"

    def in_turn(self, once: Callable[[RunningBroker, float], T]) -> list[list[T]]:
        """Return, for each broker, the results of `once(broker, seconds)` in each round; the brokers take turns.

        A round that Apache Kafka breaks off (out of memory, for example) is reported and left out.

        Raises GeneratorFailed if our broker breaks one off.
        """
        if self.warm_s:
            self._round(once, self.warm_s)
        found: list[list[T]] = [[] for _ in self.brokers]
        for _ in range(self.rounds):
            for values, one in zip(found, self._round(once, self.seconds), strict=True):
                values += one
        return found

    def _round(self, once: Callable[[RunningBroker, float], T], seconds: float) -> list[list[T]]:
        """Return for each broker its value, or none where Apache Kafka broke off."""
        found: list[list[T]] = []
        for broker in self.brokers:
            try:
                found.append([once(broker, seconds)])
            except GeneratorFailed as end:
                if broker is self.brokers[0]:
                    raise
                print(f"left out: {end}", file=sys.stderr, flush=True)
                found.append([])
        return found

    def drive(self, clients: Sequence[Client]) -> list[list[Outcomes]]:
        """Run the same clients in all rounds."""
        return self.in_turn(lambda broker, seconds: generator.run(broker, seconds, clients))


def figure(
    category: Category,
    load: str,
    name: str,
    found: Sequence[Sequence[T]],
    value: Callable[[T], float],
    *,
    more_is_better: bool = False,
) -> Figure:
    """Make a figure by applying `value` to the result of each round of each broker."""
    sides = [tuple(value(each) for each in rounds) for rounds in found]
    ours, kafka = sides[0], sides[1] if len(sides) > 1 else ()
    return Figure(category, load, name, ours, kafka, more_is_better, kafka_broke_off=len(sides) > 1 and not kafka)
