"""`pybroker serve ... --daemon` starts a broker or a cluster in the background; `pybroker stop` stops it.

The broker holds a lock on its pid file for as long as it runs. So a pid file that a crash left behind differs from that
of a running broker, and `stop` never signals another process.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pybroker import engine_process
from pybroker.cli.option_values import positive, seconds
from pybroker.cli.parser import OneLineParser
from pybroker.text_files import open_file

PID_FILE = Path("pybroker.pid")
LOG_FILE = Path("pybroker.log")
_TURN_S = 0.02
_ENDING_S = 1.0
_OWNER_ALONE = 0o600


def command_line() -> OneLineParser:
    """Return the parser of `pybroker stop`. The site has a page of its help."""
    parser = OneLineParser(
        prog="pybroker stop", description="Stop a broker or a cluster that was started with --daemon."
    )
    _add_pid_file(parser)
    parser.add_argument(
        "--timeout", type=seconds, default=120.0, metavar="SECONDS", help="how long to wait for the end (120)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    return parser


def _add_pid_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pid-file", type=Path, default=PID_FILE, metavar="FILE", help=f"({PID_FILE})")


def main(arguments: Sequence[str]) -> int:
    """Run `pybroker stop`. Return 0 if the broker has stopped, 1 if there is none or it does not stop."""
    options = command_line().parse_args(arguments)
    try:
        with open_file(options.pid_file) as file:
            if not _is_locked(file):
                return _refuse("stop", f"{options.pid_file}: the broker of that file is no longer running")
            pid = int(file.read())
            if not _holds(pid, file):
                if _is_unlocked_soon(file):  # a killed process closes its files one by one
                    return _refuse("stop", f"{options.pid_file}: the broker of that file is no longer running")
                return _refuse("stop", f"{options.pid_file}: process {pid} is not the broker of that file")
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + options.timeout
            while _is_locked(file):
                if time.monotonic() > deadline:
                    return _refuse("stop", f"process {pid} has not ended within {options.timeout:g} s")
                time.sleep(_TURN_S)
            _remove(options.pid_file, file)
    except OSError as error:
        return _refuse("stop", f"{options.pid_file}: {error.strerror}")
    except ValueError:
        return _refuse("stop", f"{options.pid_file}: there is no process id in it")
    print(json.dumps({"pid": pid, "stopped": True}) if options.json else f"stopped process {pid}")
    return 0


def start(arguments: Sequence[str]) -> int:
    """Start a broker in the background, and wait until it serves or ends. Return the exit code: 0, or the broker's."""
    parser = OneLineParser(prog="pybroker serve", add_help=False, allow_abbrev=False)
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--log-file", type=Path, default=LOG_FILE)
    parser.add_argument("--print-json", action="store_true")
    parser.add_argument("--ephemeral", action="store_true")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--until-stdin-ends", action="store_true")
    parser.add_argument("--brokers", type=positive)
    _add_pid_file(parser)
    options, rest = parser.parse_known_args(arguments)
    if options.control or options.until_stdin_ends:
        parser.error("--daemon has no standard input: not with --control or --until-stdin-ends")
    if options.ephemeral:
        rest.append("--ephemeral")
    try:
        file = _open(options.pid_file)
        while (is_ours := _lock(file)) and not _is_at(options.pid_file, file):
            file.close()  # `stop` removed it after it was opened
            file = _open(options.pid_file)
    except OSError as error:
        return _refuse("serve", f"{options.pid_file}: {error.strerror}")
    with file:
        if not is_ours:
            return _refuse("serve", f"{options.pid_file}: a broker of that file is running (process {file.read()})")
        file.truncate(0)
        try:
            return _start(options, rest, file)
        except OSError as error:
            return _refuse("serve", f"{options.log_file}: {error.strerror}")


def _start(options: argparse.Namespace, rest: Sequence[str], file: IO[Any]) -> int:
    log = os.open(options.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _OWNER_ALONE)
    began = os.fstat(log).st_size
    try:
        broker = subprocess.Popen(
            _command(options.brokers, rest),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            pass_fds=(file.fileno(),),  # the broker, or the process that starts the cluster, inherits the lock
        )
    finally:
        os.close(log)
    assert broker.stdout is not None
    try:
        file.write(str(broker.pid))
        file.flush()
        lines = [broker.stdout.readline() for _ in range(options.brokers or 1)]
    except KeyboardInterrupt:  # the broker has its own session and does not get Ctrl-C
        broker.terminate()
        broker.wait()
        _remove(options.pid_file, file)
        raise
    if not all(lines):
        code = broker.wait()
        _remove(options.pid_file, file)
        with options.log_file.open("rb") as log:
            log.seek(began)
            sys.stderr.write(log.read().decode(errors="replace"))
        return code or 1
    if options.print_json:
        sys.stdout.write(b"".join(lines).decode())
    else:
        print(_sentence(broker.pid, [json.loads(each) for each in lines], options))
    sys.stdout.flush()
    broker.returncode = 0  # the broker outlives this process: no ResourceWarning for a child that was not waited for
    return 0


def _command(brokers: int | None, rest: Sequence[str]) -> list[str]:
    """Return the command of a broker, or of that many brokers and their controller."""
    if brokers is None:
        return engine_process.command("broker.main", [*rest, "--print-json"])
    return [sys.executable, "-I", "-m", "pybroker", "serve", "--brokers", str(brokers), *rest]


def _sentence(pid: int, announced: Sequence[Mapping[str, str]], options: argparse.Namespace) -> str:
    servers = ",".join(each["bootstrap_servers"] for each in announced)
    logs = options.log_file
    if options.brokers is not None:  # each node of a cluster has a directory with its log and its data
        logs = Path(announced[0]["data_directory"]).parents[1]
    return f"process {pid} serves {servers}, and logs to {logs}"


def _lock(file: IO[Any]) -> bool:
    """Lock the file for this process; return False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(file: IO[Any]) -> bool:
    """Return whether a broker holds the lock. The check takes a shared lock, so checks do not see each other."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is_unlocked_soon(file: IO[Any]) -> bool:
    """Return whether the lock is given up within `_ENDING_S`."""
    deadline = time.monotonic() + _ENDING_S
    while _is_locked(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(_TURN_S)
    return True


def _holds(pid: int, file: IO[Any]) -> bool:
    """Return whether the process has the file open; True on systems without /proc."""
    folder = Path(f"/proc/{pid}/fd")
    if pid <= 0:
        return False
    if not Path("/proc/self/fd").exists():
        return True
    wanted = os.fstat(file.fileno())
    try:
        for each in folder.iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if os.path.samestat(wanted, each.stat()):
                    return True
    except FileNotFoundError:
        return False
    return False


def _open(path: Path) -> IO[Any]:
    """Open without truncating: only the owner of the lock may do that."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ALONE), "r+")


def _is_at(path: Path, file: IO[Any]) -> bool:
    """Return whether the path still names this file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove(path: Path, file: IO[Any]) -> None:
    """Remove the path, if it still names the locked file."""
    if _is_at(path, file):
        path.unlink()


def _refuse(command: str, line: str) -> int:
    print(f"pybroker {command}: {line}", file=sys.stderr)
    return 1
