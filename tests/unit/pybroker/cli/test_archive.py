"""Command lines of `pybroker archive` and `pybroker restore`: errors are one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pybroker.archive.errors import ArchiveError
from pybroker.archive.store import Archive
from pybroker.cli import archive, archive_options, restore

SERVER = ["--bootstrap-server", "localhost:9092"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: DIR"),
        (["lake"], "choose --topics, --compact, --verify"),
        (["lake", "--topics", "orders"], "--topics requires --bootstrap-server"),
        (["lake", "--topics", " ,", *SERVER], "no topic is named"),
        (["lake", "--topics", "orders", *SERVER, "--directory", "data"], "choose one of them"),
        (["lake", "--topics", "orders", *SERVER, "--include-active"], "--include-active requires --directory"),
        (["lake", "--topics", "orders", *SERVER, "--lag", "-1"], "'-1' is not a number of at least 0"),
        (["lake", "--topics", "orders", *SERVER, "--step-offsets", "0"], "0 is too small"),
        (["lake", "--topics", "orders", *SERVER, "--isolation-level", "all"], "invalid choice: 'all'"),
        (["lake", "--topics", "orders", *SERVER, "--property", "x"], "'x' is not KEY=VALUE"),
        (
            ["lake", "--topics", "orders", *SERVER, "--property", "interceptor.classes=X"],
            "no option 'interceptor.classes'",
        ),
        (["lake", "--topics", "orders", *SERVER, "--property", "isolation.level=x"], "use --isolation-level instead"),
        (["lake", "--compact", "--property", "security.protocol=SSL"], "--property requires --bootstrap-server"),
        (["lake", "--verify", "--format", "delta"], "--format requires --topics or --compact"),
        (["lake", "--compact", "--format", "iceberg"], "invalid choice: 'iceberg'"),
        (["lake", "--compact", "--target-file-mib", "x"], "'x' is not a number"),
    ],
)
def test_bad_archive_options_are_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        archive.main(arguments)

    assert end.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert expected in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["lake"], "required: TOPIC, --bootstrap-server"),
        (["lake", "orders", *SERVER, "--property", "acks=1"], "acks"),
        (["lake", "orders", *SERVER, "--intoo", "x"], "unrecognized arguments"),
    ],
)
def test_bad_restore_options_are_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        restore.main(arguments)

    assert end.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert expected in line


@pytest.mark.parametrize("main", [archive.main, restore.main])
def test_help_shows_the_options(main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])

    assert end.value.code == 0
    assert "--bootstrap-server HOST:PORT" in capsys.readouterr().out


def test_missing_archive_is_reported_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is created there."""
    assert archive.main([str(tmp_path / "lake"), "--verify"]) == 1
    assert archive.main([str(tmp_path / "lake"), "--compact"]) == 1
    assert restore.main([str(tmp_path / "lake"), "orders", *SERVER]) == 1

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all("is not an archive" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_empty_archive_needs_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has nothing to compact or verify."""
    with Archive(tmp_path / "lake", writing=True):
        pass
    assert archive.main([str(tmp_path / "lake"), "--compact", "--verify", "--json"]) == 0

    printed = capsys.readouterr()
    assert '"compacted": {"before": 0, "after": 0}, "verified": true' in printed.out


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(archive_options, "find_spec", lambda name: None)

    assert restore.main(["lake", "orders", *SERVER]) == 1
    assert "pyspark is missing: pip install '.[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "code", "expected"),
    [
        (KeyboardInterrupt(), 130, "interrupted: the same command continues where this one stopped"),
        (ArchiveError("it is another's"), 1, "it is another's"),
        (FileNotFoundError(2, "No such file or directory", "lake"), 1, "lake: No such file or directory"),
    ],
)
def test_failures_are_one_line_with_an_exit_code(
    failure: BaseException,
    code: int,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_options.signal, "signal", lambda *_: None)

    def act(report: Callable[[str], None]) -> int:
        raise failure

    assert archive_options.run("pybroker archive", act) == code
    assert capsys.readouterr().err == f"pybroker archive: {expected}\n"
