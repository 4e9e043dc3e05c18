"""The order of test files, and the list of seconds that it comes from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import run_order
from tests.support.proofs import ROOT
from tests.support.run_order import SlowestFirst, group_of, read_seconds, write_seconds


def item(nodeid: str) -> Any:
    return SimpleNamespace(nodeid=nodeid)


def test_slowest_files_run_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_order, "read_seconds", lambda: {"b.py": 2.0, "c.py": 9.0})
    items = [item(each) for each in ("a.py::1", "b.py::1", "b.py::2", "c.py::1", "d.py::1")]
    SlowestFirst().pytest_collection_modifyitems(items)
    assert [each.nodeid for each in items] == ["c.py::1", "b.py::1", "b.py::2", "a.py::1", "d.py::1"]


def test_files_that_share_servers_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times count as one."""
    shared = "tests/conformance/cluster/"
    known = {"b.py": 5.0, shared + "x.py": 2.0, shared + "y.py": 4.0, "c.py": 3.0}
    monkeypatch.setattr(run_order, "read_seconds", lambda: known)
    items = [item(each) for each in ("b.py::1", shared + "x.py::1", "c.py::1", shared + "y.py::1")]
    SlowestFirst().pytest_collection_modifyitems(items)
    assert [each.nodeid for each in items] == [shared + "x.py::1", shared + "y.py::1", "b.py::1", "c.py::1"]
    assert group_of(shared + "x.py::1") == group_of(shared + "y.py::1") != group_of("b.py::1")


@pytest.mark.parametrize(("scale", "is_one_group"), [(1, True), (50, False)])
def test_files_with_a_spark_session_share_it(monkeypatch: pytest.MonkeyPatch, scale: float, is_one_group: bool) -> None:
    """At full size one worker would take hours."""
    monkeypatch.setattr(run_order, "SCALE", scale)
    first, second = (group_of(f"tests/conformance/{name}.py::1") for name in ("test_spark", "test_archive"))
    assert (first == second) is is_one_group
    assert group_of("tests/conformance/test_streams.py::1") == "tests/conformance/test_streams.py"


def test_seconds_are_read_as_written(tmp_path: Path) -> None:
    write_seconds({"short.py": 0.4, "a.py": 3.2, "b.py": 70.0}, tmp_path / "seconds.tsv")
    assert read_seconds(tmp_path / "seconds.tsv") == {"b.py": 70.0, "a.py": 3.0}
    assert read_seconds(tmp_path / "none.tsv") == {}


def test_measured_files_exist() -> None:
    """A file that was renamed would lose its place in the order."""
    assert [file for file in read_seconds() if not (ROOT / file).exists()] == []
