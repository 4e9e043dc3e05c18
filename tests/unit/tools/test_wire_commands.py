"""Command lines of `pybroker explain`, `record` and `replay`, and errors before they begin."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tools.wire import explain, record, replay

LISTEN = ["--listen", "127.0.0.1:0"]


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        (record, LISTEN, "an output is missing: give -o FILE or --json"),
        (record, ["--json"], "the following arguments are required: --listen"),
        (record, ["--json", "--listen", "here"], "argument --listen: 'here' is not HOST:PORT"),
        (record, [*LISTEN, "--json", "--bootstrap-server", ""], "argument --bootstrap-server: '' is not HOST:PORT,..."),
        (replay, [], "the following arguments are required: FILE"),
        (replay, ["f", "--timeout", "0"], "argument --timeout: '0' is not a number of seconds between 0 and 86400"),
        (explain, [], "the following arguments are required: subject"),
        (explain, ["everything"], "argument subject: invalid choice: 'everything'"),
    ],
)
def test_bad_options_are_one_line(
    command: ModuleType, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{command.command_line().prog}: {expected}")


@pytest.mark.parametrize(("command", "name"), [(explain, "explain"), (record, "record"), (replay, "replay")])
def test_help_of_the_shared_parser(command: ModuleType, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == command.command_line().format_help()
    assert command.command_line().prog == f"pybroker {name}"


def test_unwritable_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the recorder listens: exit code 1."""
    assert record.main([*LISTEN, "-o", "/nowhere/session"]) == 1
    assert capsys.readouterr().err == "pybroker record: /nowhere/session: No such file or directory\n"


def test_recording_is_readable_by_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that existed with other permissions changes. A device keeps its own."""
    file = tmp_path / "session"
    file.write_text("of before")
    file.chmod(0o644)
    record._private(file).close()
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (0o600, "")

    def refuse(*_: object) -> None:
        raise AssertionError

    fchmod: Callable[[int, int], None] = refuse
    monkeypatch.setattr(os, "fchmod", fchmod)
    record._private(Path("/dev/null")).close()


def test_unreachable_broker_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as nothing was compared."""
    file = tmp_path / "session"
    head = '{"type":"recording","version":1,"started":"","bootstrap":""}\n'
    file.write_text(head + '{"type":"open","connection":1,"at":0,"node":null}\n')
    assert replay.main([str(file), "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == "pybroker replay: 127.0.0.1:1: Connection refused\n"
    file.write_text(head)
    assert replay.main([str(file)]) == 0
    assert capsys.readouterr().out == "0 requests, 0 answers: no difference\n"
