"""Which tests run against Apache Kafka, and what makes a proven one run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import proofs
from tests.support.java import KAFKA_VERSION
from tests.support.proofs import Proofs, digest, essence, halves, read_proven, write_proven

FILE = "tests/conformance/test_one.py"


class Hook:
    def pytest_deselected(self, items: list[Any]) -> None:
        self.deselected = [each.name for each in items]


@pytest.fixture
def config() -> Any:
    return SimpleNamespace(hook=Hook(), args=["tests"])


def item(name: str, *, mark: str = "", **params: object) -> Any:
    """A collected test, as far as the plugin looks at it."""
    return SimpleNamespace(
        name=f"{name}{sorted(params.items())}",
        nodeid=f"{FILE}::{name}{sorted(params.items())}",
        originalname=name,
        callspec=SimpleNamespace(params=params),
        get_closest_marker=lambda wanted: wanted == mark or None,
    )


def pair(name: str, **more: Any) -> list[Any]:
    return [item(name, reference=kind, **more) for kind in ("ours", "kafka")]


def test_half_has_a_counterpart_against_our_broker() -> None:
    ours, kafka = pair("test_a", number=1)
    assert halves([ours, kafka]) == [kafka]
    assert halves([kafka]) == []
    assert halves([ours, item("test_b", number=1, reference="kafka")]) == []


def test_directories_used_by_both_brokers_are_no_halves() -> None:
    """Both brokers take part in each of the two."""
    assert halves([item("t", writer="ours", reader="kafka"), item("t", writer="kafka", reader="ours")]) == []


def test_marked_halves_run_each_time() -> None:
    assert halves(pair("test_a", mark=proofs.EACH_TIME)) == []


@pytest.mark.parametrize(
    ("asked", "proven", "runs"),
    [
        ("", {}, ["ours", "kafka"]),
        ("", {FILE: "as it is"}, ["ours"]),
        ("", {FILE: "as it was"}, ["ours", "kafka"]),
        ("all", {FILE: "as it is"}, ["ours", "kafka"]),
        ("prove", {FILE: "as it is"}, []),
        ("prove", {FILE: "as it was"}, ["kafka"]),
    ],
)
def test_which_halves_run(
    asked: str, proven: dict[str, str], runs: list[str], config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "digest", lambda file: "as it is")
    monkeypatch.setattr(proofs, "read_proven", lambda: proven)
    plugin = Proofs()
    plugin.asked = asked
    items = pair("test_a")
    plugin.pytest_collection_modifyitems(config, items)
    assert [each.callspec.params["reference"] for each in items] == runs


@pytest.mark.parametrize(
    ("outcomes", "is_proven"),
    [
        ([("call", "passed"), ("call", "passed")], True),
        ([("call", "passed"), ("call", "failed")], False),
        ([("call", "passed"), ("setup", "skipped")], False),
        ([("call", "passed")], False),
    ],
)
def test_file_is_proven_when_all_halves_passed(
    outcomes: list[tuple[str, str]], is_proven: bool, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, str] = {}
    monkeypatch.setattr(proofs, "digest", lambda file: "as it is")
    monkeypatch.setattr(proofs, "read_proven", dict)
    monkeypatch.setattr(proofs, "write_proven", written.update)
    plugin = Proofs()
    plugin.asked = "prove"
    items = pair("test_a") + pair("test_b")
    plugin.pytest_collection_modifyitems(config, items)
    for each, (when, outcome) in zip(items, outcomes, strict=False):
        flags = {state: state == outcome for state in ("passed", "failed", "skipped")}
        plugin.pytest_runtest_logreport(SimpleNamespace(nodeid=each.nodeid, when=when, **flags))  # type: ignore[arg-type]
    plugin.pytest_sessionfinish(SimpleNamespace(config=config))  # type: ignore[arg-type]
    assert written == ({FILE: "as it is"} if is_proven else {})


def test_proofs_of_another_kafka_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "proven.tsv"
    write_proven({"a.py": "12", "b.py": "34"}, path)
    assert read_proven(path) == {"a.py": "12", "b.py": "34"}
    path.write_text(path.read_text().replace(f"34\t{KAFKA_VERSION}", "34\t3.9.1"))
    assert read_proven(path) == {"a.py": "12"}


SOURCE = '''"""A module."""

from far import (
    b,  # wanted
)

X = "a # b"  # why


def f() -> int:
    """Says größe, and
    goes on.
    """
    # a reason
    return 1
'''


def test_comments_docstrings_and_imports_do_not_count() -> None:
    assert essence(SOURCE) == 'X = "a # b"\ndef f() -> int:\n    return 1'
    assert essence(SOURCE.replace("goes on", "does not")) == essence(SOURCE)
    assert essence(SOURCE.replace("from far", "from near")) == essence(SOURCE)
    assert essence(SOURCE.replace("return 1", "return 2")) != essence(SOURCE)


def forget() -> None:
    """Read all files again."""
    for cached in (proofs.digest, proofs._essence_of, proofs._imported, proofs._programs):
        cached.cache_clear()


@pytest.fixture
def _read_again() -> Iterator[None]:
    yield
    forget()


@pytest.mark.usefixtures("_read_again")
def test_digest_covers_imports_of_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper with another expectation proves something else."""
    for folder in ("conformance", "support"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    test, helper, far = (
        tmp_path / "tests" / each for each in ("conformance/test_one.py", "support/near.py", "support/far.py")
    )
    test.write_text("from tests.support.near import NEAR\n")
    helper.write_text("import tests.support.far\n\nNEAR = 1\n")
    far.write_text("FAR = 1\n")
    (tmp_path / "tests" / "support" / "other.py").write_text("OTHER = 1\n")
    fixtures = tmp_path / "tests" / "conformance" / "conftest.py"
    fixtures.write_text("")
    monkeypatch.setattr(proofs, "ROOT", tmp_path)
    monkeypatch.setattr(proofs, "_FIXTURES", fixtures)

    def current() -> str:
        forget()
        return digest(FILE)

    before = current()
    far.write_text("FAR = 1  # for a reason\n")
    (tmp_path / "tests" / "support" / "other.py").write_text("OTHER = 2\n")
    assert current() == before
    far.write_text("FAR = 2\n")
    after = current()
    assert after != before
    fixtures.write_text("F = 1\n")
    assert current() != after
