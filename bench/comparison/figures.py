"""Measured figures: a value for each round and broker, with ratio and spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Category(Enum):
    """The kind of a figure; each kind has a chart."""

    START = "Start"
    MEMORY = "Memory"
    CPU = "Processor time"
    RATE = "Rates"
    LATENCY = "Latency"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: the values of all rounds for both brokers; `kafka` is empty where only ours ran."""

    category: Category
    load: str
    name: str  # including the unit
    ours: tuple[float, ...]
    kafka: tuple[float, ...] = ()
    more_is_better: bool = False
    kafka_broke_off: bool = False  # in all rounds of this load

    @property
    def ratio(self) -> float:
        """How many times better our median is; NaN where the divisor is missing or 0."""
        if not self.ours or not self.kafka:
            return math.nan
        ours, kafka = statistics.median(self.ours), statistics.median(self.kafka)
        above, below = (ours, kafka) if self.more_is_better else (kafka, ours)
        return above / below if below else math.nan


def spread(values: Sequence[float]) -> float:
    """Return the distance of the smallest from the largest round, as a share of their median."""
    median = statistics.median(values)
    return (max(values) - min(values)) / median if median else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that a `share` of all values are below; 0 without values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def rounded(value: float) -> str:
    """Format with three significant digits, at most three decimals, and commas: 66,400; 14.6; 0.114."""
    if math.isnan(value):
        return ""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    value = round(value, min(digits, 3))
    # 9.996 became 10.0, which needs one decimal less
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(digits, 0), 3)}f}"
