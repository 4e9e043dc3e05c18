"""`pybroker users`: input of the password."""

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
def test_password_is_read_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt has the user's name."""
    monkeypatch.setattr("getpass.getpass", lambda question: f"{question}\xe4")
    assert users._password(ASKED) == "Password of ann: \xe4".encode()  # type: ignore[arg-type]


@pytest.mark.usefixtures("on_terminal")
def test_empty_password_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter alone, or Ctrl-D."""

    def end(question: str) -> str:
        raise EOFError

    for answer in (lambda question: "", end):
        monkeypatch.setattr("getpass.getpass", answer)
        with pytest.raises(CommandError, match="the password is empty"):
            users._password(ASKED)  # type: ignore[arg-type]


def test_password_is_read_from_a_file(tmp_path: Path) -> None:
    """Its first line, without byte order mark and CR."""
    file = tmp_path / "password"
    for written in ("\xe4 b\n", "\xe4 b", "\ufeff\xe4 b\r\nmore\r\n", "\xe4 b\rmore\r"):
        file.write_bytes(written.encode())
        asked = SimpleNamespace(name="ann", password_file=file)
        assert users._password(asked) == "\xe4 b".encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(("data", "line"), [("ä\n".encode("latin-1"), 1), ("ä\n".encode("utf-16"), 1), (b"a\n\0", 2)])
def test_password_in_another_encoding_is_refused(tmp_path: Path, data: bytes, line: int) -> None:
    """The message has the line, and not the password."""
    file = tmp_path / "password"
    file.write_bytes(data)
    with pytest.raises(CommandError, match=rf"^{file}:{line}: the file is .*not UTF-8 text[^\xe4]*$"):
        users._password(SimpleNamespace(name="ann", password_file=file))  # type: ignore[arg-type]


def test_without_terminal_a_file_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is not read unless it is named."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(UsageError, match="--password-file"):
        users._password(ASKED)  # type: ignore[arg-type]
