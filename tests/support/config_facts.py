"""The tables of configuration keys of a real Kafka (tests/data/facts)."""

from __future__ import annotations

import csv
from pathlib import Path

FACTS = Path(__file__).parents[1] / "data" / "facts"


def config_facts(name: str) -> dict[str, dict[str, str]]:
    """Return the rows of `<name>.tsv` by key."""
    with open(FACTS / f"{name}.tsv", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
