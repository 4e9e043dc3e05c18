"""`pybroker record` and `pybroker replay` as processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_WAIT_S = 60


class Recorder:
    """A running `pybroker record`; `with` ends it as Ctrl-C does, and `lines` then has its messages to people."""

    def __init__(self, cluster: str, *options: str, listen: str = "127.0.0.1:0", stdout: int | None = None) -> None:
        command = [
            sys.executable,
            "-m",
            "tools.wire.record",
            "--listen",
            listen,
            "--bootstrap-server",
            cluster,
            *options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=stdout, text=True)
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()
        self.ports = sorted({int(port) for port in re.findall(r":(\d+)(?= and|,)", self.first_line)})
        self.lines: list[str] = []

    @property
    def address(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.ports[0]}"

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        assert self.process.stderr is not None
        code = self.process.wait(_WAIT_S)
        self.lines += self.process.stderr.read().splitlines()
        self.process.stderr.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()


class Replayed(NamedTuple):
    """The outcome of a replay."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the objects of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


def replay(file: Path, broker: str, *options: str) -> Replayed:
    """Replay a recording against a broker."""
    command = [sys.executable, "-m", "tools.wire.replay", str(file), "--bootstrap-server", broker, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S)
    return Replayed(done.returncode, done.stdout, done.stderr)
