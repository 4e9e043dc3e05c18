"""What was measured: a value a round and broker, and what is told of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Axis(Enum):
    """What a figure is about: each has a chart of its own."""

    START = "Start"
    MEMORY = "Memory"
    CPU = "Processor time"
    RATE = "Rates"
    LATENCY = "Latency"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: the values of all rounds, of both brokers; `kafka` is empty where only ours ran."""

    axis: Axis
    load: str
    name: str  # with its unit
    ours: tuple[float, ...]
    kafka: tuple[float, ...] = ()
    more_is_better: bool = False
    kafka_broke_off: bool = False  # all its rounds of this load

    @property
    def ratio(self) -> float:
        """How many times better ours is, by the medians; not a number where there is nothing to divide."""
        if not self.ours or not self.kafka:
            return math.nan
        ours, kafka = statistics.median(self.ours), statistics.median(self.kafka)
        above, below = (ours, kafka) if self.more_is_better else (kafka, ours)
        return above / below if below else math.nan


def spread(values: Sequence[float]) -> float:
    """How far the rounds are apart, from the least to the greatest, as a share of their median."""
    median = statistics.median(values)
    return (max(values) - min(values)) / median if median else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all are below; 0 of none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def rounded(value: float) -> str:
    """Three digits that count, of which at most three behind the point, and commas: 66,400; 14.6; 0.114."""
    if math.isnan(value):
        return ""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    value = round(value, min(digits, 3))
    # 9.996 has become 10.0, which has a digit less behind the point
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(digits, 0), 3)}f}"
