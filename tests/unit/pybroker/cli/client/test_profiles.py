"""Profiles of clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.profiles import profiles_file, read_profile


def test_profile_has_an_address_and_properties(tmp_path: Path) -> None:
    """Values are strings, as in properties files."""
    path = tmp_path / "p.toml"
    path.write_text(
        '[near]\n[far]\nbootstrap-server = "a:1,b:2"\n"sasl.username" = "ann"\n"socket.keepalive.enable" = true\n'
    )
    environ = {"PYBROKER_PROFILES": str(path)}
    properties = {"sasl.username": "ann", "socket.keepalive.enable": "true"}
    assert read_profile("far", environ) == ("a:1,b:2", properties)
    assert read_profile("near", environ) == (None, {})


def test_byte_order_mark_and_crlf_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes('\ufeff[far]\r\n"sasl.username" = "\xe4"\r\n'.encode())
    assert read_profile("far", {"PYBROKER_PROFILES": str(path)}) == (None, {"sasl.username": "\xe4"})


def test_user_without_home_has_no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with an arbitrary user id."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(UsageError, match="No such file or directory"):
        read_profile("far", {})


def test_profiles_are_in_the_config_directory() -> None:
    """Unless a variable names the file."""
    assert profiles_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/pybroker/profiles.toml")
    assert profiles_file({}) == Path.home() / ".config/pybroker/profiles.toml"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory"),
        ("[far]\na = 'ä'".encode("latin-1"), "p.toml: line 2: the file is not UTF-8 text"),
        ("[far]".encode("utf-16"), "p.toml: line 1: the file is UTF-16, not UTF-8 text"),
        ("[", "p.toml: "),
        ("[near]", "unknown profile far; known: near"),
        ("[far]\nsasl.username = 'ann'", "far: sasl is not a single value"),
    ],
)
def test_missing_profile_is_one_line(tmp_path: Path, content: str | bytes | None, expected: str) -> None:
    path = tmp_path / "p.toml"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError) as raised:
        read_profile("far", {"PYBROKER_PROFILES": str(path)})
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("mode", "key", "warns"),
    [(0o640, "sasl.password", True), (0o600, "sasl.password", False), (0o644, "sasl.username", False)],
)
def test_readable_password_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, key: str, warns: bool
) -> None:
    """One line, without the password."""
    path = tmp_path / "p.toml"
    path.write_text(f"[far]\n'{key}' = 'hidden'\n")
    path.chmod(mode)
    assert read_profile("far", {"PYBROKER_PROFILES": str(path)}) == (None, {key: "hidden"})
    expected = f"pybroker: {path}: other users may read the passwords in it: chmod 600\n"
    assert capsys.readouterr().err == (expected if warns else "")
