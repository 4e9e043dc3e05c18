"""docs/reference/durability.md names a test for each promise."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_promise_has_a_test_that_exists() -> None:
    """By file, and by function if the page names one."""
    page = (ROOT / "docs/reference/durability.md").read_text(encoding="utf-8")
    promises = re.findall(r"^\| ([KPED]\d+) \|.*\| ([^|]+) \|$", page, re.MULTILINE)
    assert len(promises) > 15
    for number, tests in promises:
        assert "`tests/" in tests or tests in ("the same", "all of these"), number
    for file, function in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {function}" in text, (file, function)
