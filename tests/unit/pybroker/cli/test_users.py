"""`pybroker users`: the password that is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pybroker.cli import users
from pybroker.cli.client.errors import CommandError, UsageError

ASKED = SimpleNamespace(name="ann", password_file=None)


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))


@pytest.mark.usefixtures("on_terminal")
def test_password_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the user's name."""
    monkeypatch.setattr("getpass.getpass", lambda question: f"{question}\xe4")
    assert users._password(ASKED) == "Password of ann: \xe4".encode()  # type: ignore[arg-type]


@pytest.mark.usefixtures("on_terminal")
def test_nothing_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter alone, or the end of the terminal's input (Ctrl-D)."""

    def end(question: str) -> str:
        raise EOFError

    for answer in (lambda question: "", end):
        monkeypatch.setattr("getpass.getpass", answer)
        with pytest.raises(CommandError, match="the password is empty"):
            users._password(ASKED)  # type: ignore[arg-type]


def test_password_of_a_file(tmp_path: Path) -> None:
    """Its first line, also where an editor has put a mark in front and CR at its end."""
    file = tmp_path / "password"
    for written in ("\xe4 b\n", "\xe4 b", "\ufeff\xe4 b\r\nmore\r\n"):
        file.write_bytes(written.encode())
        asked = SimpleNamespace(name="ann", password_file=file)
        assert users._password(asked) == "\xe4 b".encode()  # type: ignore[arg-type]


def test_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read from a pipe that nobody has named."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(UsageError, match="--password-file"):
        users._password(ASKED)  # type: ignore[arg-type]
