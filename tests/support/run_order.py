"""The order in which test files run: the slowest first, so that all workers finish at about the same time.

`tests/seconds.tsv` has the seconds of each file at the last measured run. Files that it lacks run last. The files of a
directory that share servers run together on one worker, so that these servers start once. At small sizes the files that
use the session of Spark do so, too: a session loads and compiles its classes once. At full sizes they would take the
longest by far. `make test-times` measures again.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.scale import SCALE

_ROOT = Path(__file__).parents[2]
SECONDS = Path(__file__).parents[1] / "seconds.tsv"
#: write `SECONDS` at the end of the run; files that did not run keep their times
MEASURE = "PYBROKER_TEST_TIMES"
#: faster files are left out of `SECONDS`: their order does not matter
_LEAST_S = 1.0
_SHOWN = 10
#: directories whose files share servers
_TOGETHER = ("tests/conformance/cluster/",)
#: where the fixture `spark` is, the group of its files, and how a test asks for it
_WITH_SPARK = "tests/conformance/"
_SPARK = "spark"
_ASKS_FOR_SPARK = re.compile(r"\bspark: SparkSession\b")


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


def group_of(nodeid: str) -> str:
    """Return what one worker runs without a break: the file of a test, or the name of files that share servers."""
    file = file_of(nodeid)
    if SCALE <= 1 and _uses_spark(file):
        return _SPARK
    return next((each for each in _TOGETHER if file.startswith(each)), file)


@cache
def _uses_spark(file: str) -> bool:
    path = _ROOT / file
    return file.startswith(_WITH_SPARK) and path.exists() and _ASKS_FOR_SPARK.search(path.read_text()) is not None


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives each group of tests to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


class SlowestFirst:
    """A plugin of pytest that orders the files of a run, and sums up how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the groups; the tests of a group keep their order."""
        known: dict[str, float] = defaultdict(float)
        for file, seconds in read_seconds().items():
            known[group_of(file)] += seconds
        items.sort(key=lambda item: -known[group_of(item.nodeid)])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> LoadFileScheduling | None:
        """Keep the groups together if files are to stay together."""
        return GroupScheduling(config, log) if config.getvalue("dist") == "loadfile" else None

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
