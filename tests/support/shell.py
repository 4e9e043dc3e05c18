"""Commands that talk to a broker, run in this process."""

from __future__ import annotations

import json
from importlib import import_module
from typing import NamedTuple

import pytest

from pybroker.cli.main import CLIENTS


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        """Objects of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs commands in this process: most of their time would be the interpreter's start."""

    def __init__(self, server: str, capture: pytest.CaptureFixture[str]) -> None:
        self._server = server
        self._capture = capture

    def __call__(self, command: str, *arguments: str, server: str | None = None) -> Done:
        words = [*arguments, "--bootstrap-server", server or self._server]
        self._capture.readouterr()
        try:
            code = import_module(CLIENTS[command]).main(words)
        except SystemExit as ended:
            code = ended.code
        return Done(code, *self._capture.readouterr())

    def good(self, command: str, *arguments: str) -> Done:
        """Run a command that succeeds."""
        done = self(command, *arguments)
        assert (done.code, done.err) == (0, ""), done.err
        return done
