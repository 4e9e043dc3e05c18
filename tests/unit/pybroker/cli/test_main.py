"""The command: what it does itself, and what it becomes."""

from __future__ import annotations

import os
import sys

import pytest

from pybroker.cli.main import main


class Replaced(Exception):
    """The process would have become another program."""


@pytest.fixture(autouse=True)
def _stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def execv(program: str, arguments: list[str]) -> None:
        raise Replaced(program, arguments)

    monkeypatch.setattr(os, "execv", execv)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["pybroker", *arguments])
    main()


def test_configuration_file_starts_the_broker_in_isolated_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process's place, with all arguments."""
    with pytest.raises(Replaced) as replaced:
        run(monkeypatch, "server.properties", "--override", "a=b")
    options = ["-I", "-m", "broker.main", "server.properties", "--override", "a=b"]
    assert replaced.value.args == (sys.executable, [sys.executable, *options])


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 2)])
def test_help_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    """Without arguments it is a mistake."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *arguments)
    assert ended.value.code == code
    assert "pybroker pipeline SPEC.yaml" in capsys.readouterr().out


def test_pipeline_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "pipeline", "/nowhere/spec.yaml")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("pybroker pipeline: [Errno 2] No such file or directory")


def test_pipeline_is_checked_without_spark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--check reads the specification only."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "pipeline", "--check", "examples/access-log/pipeline.yaml")
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith("1 sources, 2 streams: right\n")
