"""A broker in the background: `pybroker serve --daemon` and `pybroker stop`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from pybroker.cli import daemon
from tests.support.shell import Done


def run(folder: Path, *arguments: str) -> Done:
    """Run a command in the directory; a broker that it starts outlives it."""
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_daemon_starts_and_stops(tmp_path: Path) -> None:
    """The broker serves when the command returns. A second one is refused. The PID file is removed at the stop."""
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


def test_cluster_starts_and_stops(tmp_path: Path) -> None:
    """All brokers serve when the command returns; all processes have ended when `stop` returns."""
    kept = ["--directory", "c"]
    started = run(tmp_path, "serve", "--brokers", "2", *kept, "--daemon")
    assert started.code == 0
    pid = int((tmp_path / "pybroker.pid").read_text())
    words = started.out.split()
    assert words[:3] == ["process", str(pid), "serves"]
    servers = words[3].strip(",").split(",")
    assert words[-1] == str(tmp_path / "c")
    for server in servers:
        assert run(tmp_path, "cluster", "describe", "--json", "--bootstrap-server", server).out.count('"host"') == 2
    again = run(tmp_path, "serve", "--daemon", "--ephemeral")
    assert "a broker of that file is running" in again.err
    assert run(tmp_path, "stop").code == 0
    for node in ("broker-0/broker.log", "broker-1/broker.log", "controller/controller.log"):
        assert "Stopped in" in (tmp_path / "c" / node).read_text()
    wrong = run(tmp_path, "serve", "--brokers=2", "--daemon", "--override", "node.id=4")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "each node has its own" in wrong.err


def test_console_and_metrics_serve_when_it_returns(tmp_path: Path) -> None:
    """The printed JSON has their URLs."""
    listeners = [f"{each}.listeners=http://127.0.0.1:0" for each in ("console", "metrics")]
    options = [word for each in listeners for word in ("--override", each)]
    (started,) = run(tmp_path, "serve", "--daemon", "--ephemeral", "--print-json", *options).rows
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for url, content in ((f"{started['console']}/", b"<html"), (f"{started['metrics']}/ready", b"ready")):
            with opener.open(url, timeout=60) as answer:
                assert content in answer.read()
    finally:
        assert run(tmp_path, "stop").code == 0


def test_second_broker_of_a_directory_is_refused(tmp_path: Path) -> None:
    """Another PID file does not help. The message names the directory, and the first broker runs on."""
    data = ["--override", f"log.dirs={tmp_path / 'data'}", "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    assert run(tmp_path, "serve", "--daemon", *data).code == 0
    try:
        second = run(tmp_path, "serve", "--daemon", *data, "--pid-file", "second.pid", "--log-file", "second.log")
        assert (second.code, second.out, second.err.count("\n")) == (1, "", 1), second.err
        assert str(tmp_path / "data") in second.err
        assert not (tmp_path / "second.pid").exists()
    finally:
        assert run(tmp_path, "stop").code == 0


def test_pid_file_of_a_killed_broker_is_replaced(tmp_path: Path) -> None:
    """`stop` signals no process, and the next broker takes the file over."""
    pid_file = ("--pid-file", "its.pid")
    assert run(tmp_path, "serve", "--daemon", "--ephemeral", *pid_file, "--log-file", "its.log").code == 0
    os.kill(int((tmp_path / "its.pid").read_text()), signal.SIGKILL)
    while (gone := run(tmp_path, "stop", *pid_file, "--timeout", "5")).code == 0:
        pass  # the killed process may still exist
    assert "no longer running" in gone.err or "No such file" in gone.err
    started = run(tmp_path, "serve", "--daemon", "--ephemeral", *pid_file)
    assert "and logs to pybroker.log" in started.out
    assert run(tmp_path, "stop", *pid_file).code == 0


def test_failed_start_returns_the_brokers_exit_code(tmp_path: Path) -> None:
    """Its message is printed, and there is no PID file."""
    failed = run(tmp_path, "serve", "--daemon", "--override", "listeners=NO")
    assert failed.code == 2
    assert "listeners" in failed.err
    assert not (tmp_path / "pybroker.pid").exists()


@pytest.mark.parametrize(
    ("content", "started"),
    [(None, "No such file or directory"), ("7", "the broker of that file is no longer running")],
)
def test_stop_without_a_broker_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, started: str
) -> None:
    """The command prints one line and exits with code 1."""
    path = tmp_path / "pybroker.pid"
    if content is not None:
        path.write_text(content)
    assert daemon.main(["--pid-file", str(path)]) == 1
    assert capsys.readouterr().err == f"pybroker stop: {path}: {started}\n"


def test_stop_waits_for_the_last_moments_of_a_killed_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that was killed closes its files one by one: the lock can outlive the file that `stop` looks for."""
    path = tmp_path / "pybroker.pid"
    with path.open("w+") as file:
        file.write("0")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        ending = threading.Timer(0.1, fcntl.flock, (file, fcntl.LOCK_UN))
        ending.start()
        assert daemon.main(["--pid-file", str(path)]) == 1
        ending.join()
    assert "the broker of that file is no longer running" in capsys.readouterr().err


def test_daemon_has_no_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    """So it can neither read commands from it, nor stop when it ends."""
    with pytest.raises(SystemExit) as ended:
        daemon.start(["--daemon", "--control"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_stop_signals_no_other_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither while the file is locked for reading only, nor when its id belongs to another program now."""
    path = tmp_path / "pybroker.pid"
    with subprocess.Popen(["sleep", "100"]) as other, path.open("w+") as file:
        try:
            file.write(str(other.pid))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_SH)
            assert daemon.main(["--pid-file", str(path)]) == 1
            assert "is no longer running" in capsys.readouterr().err
            fcntl.flock(file, fcntl.LOCK_EX)
            assert daemon.main(["--pid-file", str(path)]) == 1
            assert f"process {other.pid} is not the broker of that file" in capsys.readouterr().err
            assert other.poll() is None
        finally:
            other.kill()
