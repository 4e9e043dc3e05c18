"""Start of the console's process."""

from __future__ import annotations

import importlib.util
import io
import os
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from broker.console import process as console_module
from broker.console.hosted import bind_console
from broker.console.process import Console
from broker.network.listener import CannotBind
from config import BrokerConfig, load
from console.settings import Settings, from_line


def configured(**overrides: str) -> BrokerConfig:
    return load(overrides={key.replace("_", "."): value for key, value in overrides.items()})


def broker(**overrides: str) -> Any:
    config = configured(**overrides)
    listeners = [SimpleNamespace(name=each.name, port=9092) for each in config.listeners]
    return SimpleNamespace(config=config, server=SimpleNamespace(listeners=listeners), endpoint=None)


def test_console_is_started_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no package is imported for it."""
    monkeypatch.setitem(sys.modules, "broker.console.process", None)

    assert bind_console(configured()) is None


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs them."""
    found = importlib.util.find_spec
    monkeypatch.setattr(console_module, "find_spec", lambda name: None if name[0] in "uj" else found(name))

    with pytest.raises(
        CannotBind, match=r"the console cannot run without uvicorn and jinja2; run pip install 'pybroker\[console\]'"
    ):
        bind_console(configured(console_listeners="http://127.0.0.1:0"))


class Process:
    """Replaces the process: keeps its settings, and ends when its standard input is closed."""

    def __init__(self, command: list[str], *, pass_fds: list[int], **_: object) -> None:
        self.command = command
        self.stdin = Pipe()
        for each in pass_fds:  # the sockets are open when it starts
            with socket.socket(fileno=os.dup(each)) as listening:
                assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)

    def wait(self, timeout: float | None = None) -> int:
        assert self.stdin.received
        return 0


class Pipe(io.BytesIO):
    """A pipe with a real descriptor."""

    received = ""

    def __init__(self) -> None:
        super().__init__()
        self._other_end, self._end = os.pipe()

    def fileno(self) -> int:
        return self._end

    def flush(self) -> None:
        self.received = self.getvalue().decode()


def test_settings_are_sent_to_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a line that console/settings.py parses. The listening sockets are closed in the broker."""
    monkeypatch.setattr(subprocess, "Popen", Process)
    running = broker(log_dirs="one,/two", listeners="PLAINTEXT://:9092")
    made = Console([("127.0.0.1", 0)])
    (listening,) = made._sockets
    handles = (listening.fileno(),)
    made.start(running.config, running.server.listeners, None)

    process: Any = made._process
    assert process.command[1:] == ["-I", "-m", "pybroker.engine_process", "console.main"]
    assert from_line(process.stdin.received) == Settings("localhost:9092", (os.path.abspath("one"), "/two"), handles)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])
    made.close()
    assert process.stdin.closed
