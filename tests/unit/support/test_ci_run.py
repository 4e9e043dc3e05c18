"""The last lines that continuous integration prints. A script stands in for `make`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Each call is the next attempt: the tests that fail in it.
MAKE = """#!/usr/bin/env python3
import json, pathlib, sys
tries = pathlib.Path("tries.json")
now, *later = json.loads(tries.read_text())
tries.write_text(json.dumps(later))
failed = pathlib.Path(".pytest_cache/v/cache/lastfailed")
failed.parent.mkdir(parents=True, exist_ok=True)
failed.write_text(json.dumps(dict.fromkeys(now, True), indent=2))
print(f"= {len(now)} failed, 3 passed in {len(later)}.00s =")
sys.exit(2 if now else 0)
"""
FIRST = ["tests/fault/test_a.py::test_one[x-y]", "tests/unit/test_b.py::test_two"]


@pytest.mark.parametrize(
    ("tries", "expected", "code"),
    [
        ([[]], ["= 0 failed, 3 passed in 0.00s =", "= 0 failed, 3 passed in 0.00s ="], 0),
        (
            [FIRST, FIRST[1:]],
            [
                "Flaky: failed at the first try, passed at the second",
                f"  {FIRST[0]}",
                "= 2 failed, 3 passed in 1.00s =",
                "= 1 failed, 3 passed in 0.00s =",
            ],
            2,
        ),
        (
            [FIRST, []],
            [
                "Flaky: failed at the first try, passed at the second",
                *(f"  {each}" for each in FIRST),
                "= 2 failed, 3 passed in 1.00s =",
                "= 0 failed, 3 passed in 0.00s =",
            ],
            0,
        ),
        ([FIRST, FIRST], ["= 2 failed, 3 passed in 1.00s =", "= 2 failed, 3 passed in 0.00s ="], 2),
    ],
    ids=["passed", "one is flaky", "both are flaky", "failed twice"],
)
def test_flaky_tests_are_listed(tries: list[list[str]], expected: list[str], code: int, tmp_path: Path) -> None:
    """They precede the last line of the last attempt, which stays the last line."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    make = tmp_path / "bin" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    (tmp_path / "tries.json").write_text(json.dumps(tries))
    environment = {**os.environ, "PATH": f"{make.parent}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines()[-len(expected) :] == expected
