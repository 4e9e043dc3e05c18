"""Which tests must run against Apache Kafka, and which passed against it and have not changed since.

A conformance test that runs against both brokers makes the same assertions about each. Its Kafka half shows that the
expectation is right, and that stays true while the test does not change. So a half runs once for each change of its
test: `tests/conformance/proven.tsv` has the digest of each test file at the time when all of its halves passed, and a
half with an unchanged digest is left out. A changed file runs against Kafka again until `make prove` renews the list.

The digest covers the test file, all of `tests` that it imports, the fixtures of `conftest.py`, and the programs in
other languages. Comments, docstrings, blank lines and import statements do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import os
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.java import KAFKA_VERSION
from tests.support.recorded_answers import is_recorded
from tests.support.run_order import file_of
from tests.support.scale import SCALE

ROOT = Path(__file__).parents[2]
PROVEN = ROOT / "tests" / "conformance" / "proven.tsv"
#: "all": every half runs. "prove": only halves without a proof run, and the list is renewed.
ASKED = "PYBROKER_TEST_KAFKA"
#: A test with this mark uses Apache Kafka to test our code: its half always runs.
EACH_TIME = "kafka_each_time"
_FIXTURES = ROOT / "tests" / "conformance" / "conftest.py"


#: Tests that take this fixture compare with recorded answers of Apache Kafka (support/recorded_answers.py).
RECORDED = "recorded"


def kafka_asked() -> str:
    """Return which tests of this run ask Apache Kafka: "" for changed ones, "all", or "prove"."""
    return os.environ.get(ASKED, "all" if SCALE > 1 else "")


def read_proven(path: Path = PROVEN) -> dict[str, str]:
    """Return the digest of each proven file; none if another Kafka version proved them."""
    if not path.exists():
        return {}
    rows = (line.split("\t") for line in path.read_text().splitlines()[1:])
    return {file: digest for file, digest, version in rows if version == KAFKA_VERSION}


def write_proven(proven: Mapping[str, str], path: Path = PROVEN) -> None:
    """Write the list, by name of file."""
    rows = [f"{file}\t{digest}\t{KAFKA_VERSION}" for file, digest in sorted(proven.items())]
    path.write_text("\n".join(["file\tdigest\tkafka", *rows]) + "\n")


# ---- what a proof depends on


@functools.cache
def digest(file: str) -> str:
    """Return the digest of a test file and of what it depends on, as hexadecimal digits."""
    found = hashlib.sha256()
    for path in sorted(_closure([ROOT / file, _FIXTURES])):
        found.update(f"{path.relative_to(ROOT)}\n{_essence_of(path)}\n".encode())
    found.update(_programs().encode())
    return found.hexdigest()[:16]


def essence(source: str) -> str:
    """Return Python source without comments, docstrings, imports, blank lines and trailing space.

    A module that moves to another room changes imports, but no demand of a test.
    """
    lines = source.splitlines()
    statements = [*_statements(source)]
    inside = [each for each in _comments(source) if not any(a <= each[0] < b for a, b in statements)]
    for (first, start), (last, end) in sorted([*statements, *inside], reverse=True):
        lines[first : last + 1] = [lines[first][:start] + lines[last][end:]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


@functools.cache
def _essence_of(path: Path) -> str:
    return essence(path.read_text())


_Span = tuple[tuple[int, int], tuple[int, int]]


def _statements(source: str) -> Iterator[_Span]:
    """Yield where docstrings and imports are."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            if not (isinstance(each, ast.Import | ast.ImportFrom) or _is_text(each)):
                continue
            first, last = each.lineno - 1, each.end_lineno - 1
            # columns of the syntax tree count bytes
            start = len(lines[first].encode()[: each.col_offset].decode())
            end = len(lines[last].encode()[: each.end_col_offset].decode())
            yield (first, start), (last, end)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _comments(source: str) -> Iterator[_Span]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            (first, start), (last, end) = token.start, token.end
            yield (first - 1, start), (last - 1, end)


def _closure(files: Iterable[Path]) -> set[Path]:
    """Return the files, and all of `tests` that they import."""
    found: set[Path] = set()
    left = list(files)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported(path)
    return found


@functools.cache
def _imported(path: Path) -> tuple[Path, ...]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    parts = [ROOT.joinpath(*name.split(".")) for name in names if name.startswith("tests.")]
    candidates = [each for part in parts for each in (part.with_suffix(".py"), part / "__init__.py")]
    return tuple(sorted(each for each in candidates if each.exists()))


@functools.cache
def _programs() -> str:
    """Return a digest of the programs in other languages, which several tests run."""
    found = hashlib.sha256()
    for path in sorted(_FIXTURES.parent.rglob("*")):
        if path.is_file() and path.suffix not in {".py", ".pyc", ".tsv"}:
            found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


# ---- which tests it decides about


def halves(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the Kafka halves: tests with a parameter "kafka" that also exist with "ours" in its place."""
    listed = list(items)
    there = {_key(item, {}) for item in listed}
    return [
        item
        for item in listed
        if "kafka" in (values := _values(item))
        and "ours" not in values
        and _key(item, {"kafka": "ours"}) in there
        and item.get_closest_marker(EACH_TIME) is None
    ]


def _values(item: pytest.Item) -> list[str]:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return [value for value in params.values() if isinstance(value, str)]


def _key(item: pytest.Item, renamed: Mapping[str, str]) -> tuple[object, ...]:
    params = getattr(getattr(item, "callspec", None), "params", {})
    named = {name: renamed.get(str(value), str(value)) for name, value in params.items()}
    return file_of(item.nodeid), getattr(item, "originalname", item.name), *sorted(named.items())


def _recorded(items: Iterable[pytest.Item]) -> set[str]:
    """Return the tests that compare with recorded answers."""
    return {item.nodeid for item in items if RECORDED in getattr(item, "fixturenames", ())}


class Proofs:
    """A plugin of pytest that leaves out proven halves, and renews the list where the run is to prove them."""

    def __init__(self) -> None:
        self.asked = kafka_asked()
        self._to_pass: dict[str, set[str]] = defaultdict(set)
        self._passed: set[str] = set()
        self._ran: set[str] = set()
        self._unrecorded: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take proven halves out of the run."""
        if self.asked == "all":
            return
        found = {item.nodeid for item in halves(items)}
        proven = read_proven()
        unproven = {file for file in map(file_of, found) if proven.get(file) != digest(file)}
        self._unrecorded = {file for file in map(file_of, _recorded(items)) if not is_recorded(file, digest(file))}
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            file, is_half = file_of(item.nodeid), item.nodeid in found
            if self.asked == "prove":
                runs = file in unproven if is_half else file in self._unrecorded
            else:
                runs = not is_half or file in unproven
            (kept if runs else left_out).append(item)
            if is_half and runs:
                self._to_pass[file].add(item.nodeid)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which tests passed."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed or report.skipped:
            self._passed.discard(report.nodeid)
        if "kafka" in report.nodeid.partition("[")[2]:
            self._ran.add(file_of(report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record whole files whose halves all passed."""
        if self.asked != "prove" or any("::" in argument for argument in session.config.args):
            return
        proven = {file: digest(file) for file, tests in self._to_pass.items() if tests <= self._passed}
        there = {file: each for file, each in read_proven().items() if (ROOT / file).exists()}
        write_proven(there | proven)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the files whose halves ran because they have changed."""
        if self.asked:
            return
        proven = read_proven()
        changed = {file for file in self._ran & proven.keys() if proven[file] != digest(file)}
        again = sorted(changed | self._unrecorded)
        if again:
            terminalreporter.section("changed, so run against Apache Kafka again until make prove renews its list")
            for file in again:
                terminalreporter.line(file)
