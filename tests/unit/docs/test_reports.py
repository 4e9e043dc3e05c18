"""Public reports about other brokers, images and Spark: each was tried here, and has a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "tests/data/reports.tsv"


def test_each_report_has_a_test() -> None:
    head, *rows = (line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())
    assert head == ["source", "steps", "result", "test"]
    for row in rows:
        assert len(row) == len(head), row
        assert all(row), row
        path, _, name = row[3].partition("::")
        assert re.search(rf"^ *(async )?def {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), row


def test_reports_are_sorted() -> None:
    """Each once, so that additions do not collide."""
    rows = FILE.read_text(encoding="utf-8").splitlines()[1:]
    assert rows == sorted(set(rows))
