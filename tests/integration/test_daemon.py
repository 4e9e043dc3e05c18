"""A broker in the background, by `pybroker serve --daemon` and `pybroker stop`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pybroker.cli import daemon
from tests.support.shell import Done


def run(folder: Path, *arguments: str) -> Done:
    """A command in that folder; the broker may go on when it has ended."""
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_started_and_stopped(tmp_path: Path) -> None:
    """It serves when the command returns; a second one is refused; the file of its id goes with it."""
    started = run(tmp_path, "serve", "--daemon", "--ephemeral", "--print-json")
    assert (started.code, started.err) == (0, "")
    (announced,) = started.rows
    pid = int((tmp_path / "pybroker.pid").read_text())
    assert announced["pid"] == pid
    again = run(tmp_path, "serve", "--daemon", "--ephemeral")
    assert again == Done(1, "", f"pybroker serve: pybroker.pid: a broker of that file is running (process {pid})\n")
    id_ = run(tmp_path, "cluster", "id", "--bootstrap-server", str(announced["bootstrap_servers"]))
    assert id_.code == 0
    stopped = run(tmp_path, "stop", "--json")
    assert stopped == Done(0, json.dumps({"pid": pid, "stopped": True}) + "\n", "")
    assert [each.name for each in tmp_path.iterdir()] == ["pybroker.log"]
    assert not Path(str(announced["data_directory"])).exists()


def test_console_and_metrics_are_there_when_it_returns(tmp_path: Path) -> None:
    """Where is told; neither refuses who comes at once."""
    listeners = [f"{each}.listeners=http://127.0.0.1:0" for each in ("console", "metrics")]
    options = [word for each in listeners for word in ("--override", each)]
    (told,) = run(tmp_path, "serve", "--daemon", "--ephemeral", "--print-json", *options).rows
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for url, content in ((f"{told['console']}/", b"<html"), (f"{told['metrics']}/ready", b"ready")):
            with opener.open(url, timeout=60) as answer:
                assert content in answer.read()
    finally:
        assert run(tmp_path, "stop").code == 0


def test_second_broker_of_a_directory(tmp_path: Path) -> None:
    """One line: the directory is another's, whatever the file of its id is called; the first one goes on."""
    data = ["--override", f"log.dirs={tmp_path / 'data'}", "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    assert run(tmp_path, "serve", "--daemon", *data).code == 0
    try:
        second = run(tmp_path, "serve", "--daemon", *data, "--pid-file", "second.pid", "--log-file", "second.log")
        assert (second.code, second.out, second.err.count("\n")) == (1, "", 1), second.err
        assert str(tmp_path / "data") in second.err
        assert not (tmp_path / "second.pid").exists()
    finally:
        assert run(tmp_path, "stop").code == 0


def test_one_that_was_killed(tmp_path: Path) -> None:
    """Its file is left behind: nobody is signalled, and the next broker takes it over."""
    place = ("--pid-file", "its.pid")
    assert run(tmp_path, "serve", "--daemon", "--ephemeral", *place, "--log-file", "its.log").code == 0
    os.kill(int((tmp_path / "its.pid").read_text()), signal.SIGKILL)
    while (gone := run(tmp_path, "stop", *place, "--timeout", "5")).code == 0:
        pass  # it may still be on its way out
    assert "not running any more" in gone.err or "No such file" in gone.err
    started = run(tmp_path, "serve", "--daemon", "--ephemeral", *place)
    assert "and logs to pybroker.log" in started.out
    assert run(tmp_path, "stop", *place).code == 0


def test_start_that_fails(tmp_path: Path) -> None:
    """What the broker says, its exit code, and no file of an id."""
    failed = run(tmp_path, "serve", "--daemon", "--override", "listeners=NO")
    assert failed.code == 2
    assert "listeners" in failed.err
    assert not (tmp_path / "pybroker.pid").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "No such file or directory"), ("7", "the broker of that file is not running any more")],
)
def test_nobody_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, told: str) -> None:
    """One line, exit code 1."""
    path = tmp_path / "pybroker.pid"
    if content is not None:
        path.write_text(content)
    assert daemon.main(["--pid-file", str(path)]) == 1
    assert capsys.readouterr().err == f"pybroker stop: {path}: {told}\n"


def test_daemon_has_no_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    """So it can neither take commands from it, nor end with it."""
    with pytest.raises(SystemExit) as ended:
        daemon.start(["--daemon", "--control"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_process_that_is_no_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is not signalled: neither while others look at the file, nor while it is locked and its id is an old one."""
    path = tmp_path / "pybroker.pid"
    with subprocess.Popen(["sleep", "100"]) as other, path.open("w+") as file:
        try:
            file.write(str(other.pid))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_SH)
            assert daemon.main(["--pid-file", str(path)]) == 1
            assert "is not running any more" in capsys.readouterr().err
            fcntl.flock(file, fcntl.LOCK_EX)
            assert daemon.main(["--pid-file", str(path)]) == 1
            assert f"process {other.pid} is not the broker of that file" in capsys.readouterr().err
            assert other.poll() is None
        finally:
            other.kill()
