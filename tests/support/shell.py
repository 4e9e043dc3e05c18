"""Run commands: in this process, to talk to a broker, or on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import termios
from importlib import import_module
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from pybroker.cli.commands import COMMANDS
from pybroker.testing import Broker


class Done(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        """Return the objects of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs commands in this process: a new interpreter would take most of their time."""

    def __init__(self, server: str, capture: pytest.CaptureFixture[str]) -> None:
        self._server = server
        self._capture = capture

    def __call__(self, command: str, *arguments: str, server: str | None = None) -> Done:
        words = [*arguments, "--bootstrap-server", server or self._server]
        self._capture.readouterr()
        try:
            code = import_module(COMMANDS[command].module).main(words)
        except SystemExit as ended:
            code = ended.code
        return Done(code, *self._capture.readouterr())

    def good(self, command: str, *arguments: str) -> Done:
        """Run a command that must succeed."""
        done = self(command, *arguments)
        assert (done.code, done.err) == (0, ""), done.err
        return done


def write(
    broker: Broker, topic: str, *records: tuple[int, str, int], headers: dict[str, str | bytes | None] | None = None
) -> None:
    """Write (partition, value, timestamp), each with the key k."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, value, timestamp in records:
        producer.produce(topic, value, "k", partition=partition, timestamp=timestamp, headers=headers or {})
    assert producer.flush(60) == 0


_LIMIT_S = 60


def on_terminal(command: list[str], *, columns: int = 80) -> bytes:
    """Return a command's output on a terminal, at most 4 kB; a carriage return precedes each line feed."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(command, stdout=its, env=environment, timeout=_LIMIT_S)
    os.close(its)
    assert done.returncode == 0
    with open(ours, "rb", buffering=0) as terminal:
        return terminal.read(1 << 12) or b""
