"""Closed pipes as with `| head`, full disks, Ctrl-C: exit codes without a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from pybroker.cli.exit_codes import end, has_no_reader

LINES = [
    "--help",
    "--version",
    "--help-broker",
    "topics --help",
    "produce --help",
    "pipeline --help",
    "config --help",
    "config print",
    "config explain log.dirs",
    "doctor",
    "completion bash",
    "man",
    "random-uuid",
]


@pytest.mark.parametrize("line", LINES)
def test_closed_output_is_no_error(line: str) -> None:
    """Exit code 0 and no message, with and without buffering of standard output."""
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "PYTHONUNBUFFERED": "" if line.endswith(("n", "p")) else "1"}
    command = [sys.executable, "-m", "pybroker", *line.split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environ, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["--help", "topics --help", "config print", "dump-log --files there.is.none"])
def test_full_disk_is_one_line(line: str, unbuffered: str) -> None:
    """Exit code 1, whether the write or the final flush fails."""
    command = [sys.executable, "-m", "pybroker", *line.split()]
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environ, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "pybroker: No space left on device"
    assert "Traceback" not in done.stderr


def test_interrupt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit code that shells expect."""

    def command() -> int:
        print("so far")
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        end(command)
    assert ended.value.code == 130
    assert capsys.readouterr() == ("so far\n", "pybroker: interrupted\n")


def test_inaccessible_file_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In any command."""
    monkeypatch.setattr("pybroker.cli.exit_codes.drop_output", lambda: None)

    def command() -> int:
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    with pytest.raises(SystemExit) as ended:
        end(command)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "pybroker: /etc/shadow: Permission denied\n"


def test_unencodable_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that the terminal's encoding lacks, and bytes that are not UTF-8."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit) as ended:
        end(lambda: print("\xe4 \udcff") or 0)  # type: ignore[func-returns-value]
    assert ended.value.code == 0
    assert output.buffer.getvalue() == b"\\xe4 \\udcff\n"  # type: ignore[attr-defined]


def test_pipe_without_reader_is_detected() -> None:
    """Without writing a byte. A file needs no reader."""
    reading, writing = os.pipe()
    assert not has_no_reader(writing)
    os.close(reading)
    assert has_no_reader(writing)
    os.close(writing)
    with open(os.devnull, "wb") as file:
        assert not has_no_reader(file.fileno())
