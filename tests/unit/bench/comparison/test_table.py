"""The table that `make bench` writes."""

from __future__ import annotations

import pytest

from bench.comparison.figures import Category, Figure
from bench.comparison.table import BEGIN, END, replace_between_marks, table

CPU = Figure(Category.CPU, "small", "CPU us a request", (14.0, 15.0, 14.6), (21.0, 21.6, 22.0))
RATE = Figure(Category.RATE, "small", "requests a second", (66_400.0,), (46_500.0,), more_is_better=True)
ALONE = Figure(Category.MEMORY, "idle", "MB", (35.0, 35.7))


def test_a_row_has_medians_ratio_and_spreads() -> None:
    lines = table([CPU]).splitlines()

    assert lines[0] == "| load | figure | pybroker | Apache Kafka | ratio | spread |"
    assert lines[2:] == ["| small | CPU us a request | 14.6 | 21.6 | 1.48 | 7%, 5% |"]


def test_a_load_is_named_once() -> None:
    """A single round has no spread."""
    assert table([CPU, RATE]).splitlines()[3] == "|  | requests a second | 66,400 | 46,500 | 1.43 |  |"


def test_without_apache_kafka_its_cells_are_empty() -> None:
    assert table([ALONE]).splitlines()[2] == "| idle | MB | 35.4 |  |  | 2% |"


def test_a_load_that_apache_kafka_aborted_is_marked() -> None:
    broken = Figure(Category.LATENCY, "huge", "ms", (1.0,), kafka_broke_off=True)

    assert table([broken]).splitlines()[2] == "| huge | ms | 1.00 | broke off |  |  |"


def test_the_text_between_the_marks_is_replaced() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"

    written = replace_between_marks(document, "\nnew\n\n")

    assert written == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replace_between_marks(written, "new") == written


@pytest.mark.parametrize("document", ["nothing", BEGIN, END, f"{END} {BEGIN}"])
def test_a_document_without_marks_is_rejected(document: str) -> None:
    with pytest.raises(ValueError, match="lacks"):
        replace_between_marks(document, "new")
