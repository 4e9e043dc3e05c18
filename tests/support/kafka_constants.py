"""Kafka's constants (tests/data/facts/constants.tsv), by class and name."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

FILE = Path(__file__).parents[1] / "data" / "facts" / "constants.tsv"
PACKAGE = "org.apache.kafka."

Value: TypeAlias = int | str | bytes


@dataclass(frozen=True)
class Constant:
    """A constant. `parts`: its values, by the name of the field of an enum's member; "" for a plain constant."""

    class_name: str
    name: str
    parts: dict[str, str] = field(default_factory=dict)

    def value(self, part: str = "") -> Value:
        """Return a value: a number, an id of 16 bytes, or a text."""
        text = self.parts[part]
        if len(text) == 32 and text.isdigit():
            return bytes.fromhex(text)
        return int(text) if text.removeprefix("-").isdecimal() else text


@cache
def kafka_constants() -> Mapping[tuple[str, str], Constant]:
    """Return all constants by class, without org.apache.kafka., and name."""
    found: dict[tuple[str, str], Constant] = {}
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            key = row["class"].removeprefix(PACKAGE), row["name"]
            found.setdefault(key, Constant(*key)).parts[row["part"]] = row["value"]
    return found


def members(class_name: str, part: str) -> dict[str, Value]:
    """Return the values of an enum's members by name. Other constants of the class are left out."""
    return {
        each.name: each.value(part)
        for each in kafka_constants().values()
        if each.class_name == class_name and part in each.parts
    }
