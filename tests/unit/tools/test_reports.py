"""The table of public reports that were tried: sorted, complete, and each row names a test that exists."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
ROWS = [line.split("\t") for line in (TESTS / "data/reports.tsv").read_text().splitlines()]


def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_rows_are_complete_and_sorted() -> None:
    head, *rows = ROWS
    assert head == ["source", "steps", "result", "test"]
    assert [row for row in rows if len(row) != len(head) or not all(row)] == []
    assert rows == sorted(rows)


def test_each_row_names_a_test() -> None:
    missing = []
    for *_, test in ROWS[1:]:
        file, _, name = test.partition("::")
        path = TESTS.parent / file
        if not path.is_file() or (name and name not in functions(path)):
            missing.append(test)
    assert missing == []
