"""Figures as a Markdown table, and its place in a document."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from bench.comparison.figures import Figure, rounded, spread

BEGIN, END = "<!-- written by make bench: begin -->", "<!-- written by make bench: end -->"

_HEAD = ("load", "figure", "pybroker", "Apache Kafka", "ratio", "spread")


def table(figures: Sequence[Figure]) -> str:
    """Return a row for each figure, with the medians; a load's name is written once. Spread is of both brokers."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _rows(figures))


def _rows(figures: Sequence[Figure]) -> Iterator[tuple[str, ...]]:
    yield _HEAD
    yield "---", "---", "---:", "---:", "---:", "---:"
    above = ""
    for figure in figures:
        sides = [values for values in (figure.ours, figure.kafka) if values]
        medians = [rounded(statistics.median(values)) for values in sides]
        spreads = [f"{spread(values):.0%}" for values in sides if len(values) > 1]
        yield (
            figure.load if figure.load != above else "",
            figure.name,
            medians[0],
            medians[1] if len(medians) > 1 else "broke off" if figure.kafka_broke_off else "",
            rounded(figure.ratio),
            ", ".join(spreads),
        )
        above = figure.load


def replace_between_marks(document: str, text: str) -> str:
    """Return the document with `text` between the two marks. ValueError: a mark is missing."""
    before, begun, rest = document.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"the document lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{text.strip()}\n{END}{after}"
