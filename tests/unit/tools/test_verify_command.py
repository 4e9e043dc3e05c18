"""The command `pybroker verify`: options, output, exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pybroker import engine_process
from pybroker.cli.exit_codes import end
from storage.fs import LOCAL
from tests.support.damage import flip
from tools.data.verify import main


def test_json_has_an_object_per_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings, repairs, and a summary of each check."""
    log = directory / "plain-0/00000000000000000000.log"
    flip(log, 300)
    assert main([str(directory), "--json", "--repair"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    errors_of = [line for line in lines if line["type"] == "finding" and line["severity"] != "note"]
    assert errors_of == [
        {
            "type": "finding",
            "path": str(log),
            "kind": "records",
            "severity": "loss",
            "position": 193,
            "offset": 4,
            "losesRecords": True,
            "what": "the checksum of the batch is wrong",
        }
    ]
    summaries = [line for line in lines if line["type"] == "summary"]
    assert [(each["findings"], each["losses"]) for each in summaries] == [(1, 1), (0, 0)]
    assert "repair" in {line["type"] for line in lines}


def test_notes_are_printed_on_request(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that the next start deletes are counted, but are no errors."""
    assert main([str(directory)]) == 0
    assert " notes)" in capsys.readouterr().out
    assert main([str(directory), "--notes"]) == 0
    assert ".deleted: deleted; the next start removes it (not an error)\n" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--notes"], ["--json"]])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_names_that_are_not_utf8_are_escaped(
    directory: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, options: list[str]
) -> None:
    """On terminals and pipes. JSON stays valid."""
    strange = directory.rename(directory.parent / os.fsdecode(b"\xff\xc3\xa4"))
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit) as ended:
        end(lambda: main([str(strange), *options]))
    assert ended.value.code == 0
    printed = output.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    if "--json" in options:
        assert any("/\udcff\xe4/" in json.loads(line).get("path", "") for line in printed.splitlines())
    else:
        assert "/\\udcff\xe4/" in printed


def test_configuration_gives_the_directories(directory: Path, tmp_path: Path) -> None:
    """--config instead of DIR."""
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={directory}\n")
    assert main(["--config", str(config)]) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name the log directories"),
        (["/nowhere"], "/nowhere: there is no such directory"),
        (["--config", "/nowhere"], "/nowhere"),
    ],
)
def test_unreadable_directories_are_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_terminal_shows_progress(directory: Path) -> None:
    """A bar that is cleared at the end. Findings go to the other stream."""
    terminal, its = pty.openpty()
    command = engine_process.command("tools.data.verify", [str(directory)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its) as process:
        os.close(its)
        printed = b""
        with suppress(OSError):  # the reader of the terminal is gone
            while some := os.read(terminal, 4096):
                printed += some
        assert process.stdout is not None
        assert b": no problems" in process.stdout.read()
    os.close(terminal)
    assert b"Checking [##############################] " in printed
    assert printed.endswith(b"\r\x1b[K")


def test_bad_options_are_an_error() -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["--what"])
    assert ended.value.code == 2


def test_directory_of_a_running_broker_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test holds the lock in its own process, so it fakes the result that another process would get."""
    monkeypatch.setattr(type(LOCAL), "lock", lambda self, path: None)
    assert main([str(directory)]) == 2
    assert "a broker is using it" in capsys.readouterr().err


def test_lock_file_is_unchanged(directory: Path) -> None:
    """None is created either."""
    assert main([str(directory)]) == 0
    assert not (directory / ".lock").exists()
    (directory / ".lock").touch()
    assert main([str(directory)]) == 0
    assert (directory / ".lock").exists()
