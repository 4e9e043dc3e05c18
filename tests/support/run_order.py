"""The order in which test files run: the slowest first, so that all workers finish at about the same time.

`tests/seconds.tsv` has the seconds of each file at the last measured run. Files that it lacks run last.
`make test-times` measures again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

SECONDS = Path(__file__).parents[1] / "seconds.tsv"
#: write `SECONDS` at the end of the run; files that did not run keep their times
MEASURE = "PYBROKER_TEST_TIMES"
#: faster files are left out of `SECONDS`: their order does not matter
_LEAST_S = 1.0
_SHOWN = 10


def read_seconds(path: Path = SECONDS) -> dict[str, float]:
    """Return the seconds by test file, as a path from the root of the project."""
    if not path.exists():
        return {}
    rows = (line.split("\t") for line in path.read_text().splitlines()[1:])
    return {file: float(seconds) for file, seconds in rows}


def write_seconds(seconds: dict[str, float], path: Path = SECONDS) -> None:
    """Write the seconds of each file, the slowest first."""
    kept = {file: each for file, each in seconds.items() if each >= _LEAST_S}
    rows = [f"{file}\t{each:.0f}" for file, each in sorted(kept.items(), key=lambda row: (-round(row[1]), row[0]))]
    path.write_text("\n".join(["file\tseconds", *rows]) + "\n")


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


class SlowestFirst:
    """A plugin of pytest that orders the files of a run, and sums up how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the files; the tests of a file keep their order."""
        known = read_seconds()
        items.sort(key=lambda item: -known.get(file_of(item.nodeid), 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what one phase of a test took."""
        self.seconds[file_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the slowest files, and write the times of a measured run."""
        if len(self.seconds) <= _SHOWN:
            return
        total = sum(self.seconds.values())
        terminalreporter.section(f"slowest files of {len(self.seconds)}, which took {total:.0f} s together")
        for file, seconds in sorted(self.seconds.items(), key=lambda row: -row[1])[:_SHOWN]:
            terminalreporter.line(f"{seconds:6.1f} s  {file}")
        if MEASURE in os.environ:
            write_seconds(read_seconds() | self.seconds)
