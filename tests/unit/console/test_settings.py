"""Settings that the broker sends to its console."""

from __future__ import annotations

import io
import os
import sys

import pytest

from console import main
from console.settings import Settings, from_line

SETTINGS = Settings("localhost:9092", ("/data/a b", "/data/ü"), (3, 4), "http://127.0.0.1:9404")


@pytest.mark.parametrize("settings", [SETTINGS, Settings("[::1]:1", (), (), None, ("PLAIN",), "/ca", True)])
def test_settings_are_one_line(settings: Settings) -> None:
    """Reading stops at its end."""
    line = settings.to_line()
    assert line.count("\n") == 1
    assert from_line(line) == settings


@pytest.mark.parametrize("line", ["", "no JSON\n", "[]\n", "{}\n", '{"bootstrap": "x", "log_dirs": 1}\n'])
def test_manual_start_explains_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """The exit code is that of a bad command line."""
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    assert main.main() == 2
    message = "start the console by setting console.listeners in the broker's configuration"
    assert capsys.readouterr().err == f"pybroker: {message}\n"
