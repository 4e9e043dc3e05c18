"""By which names a console is known."""

from __future__ import annotations

import pytest

from console.protection import host_name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:8080", "::1"),
        ("", ""),
        ("[", ""),
        ("localhost.evil.example:80", "localhost.evil.example"),
        ("localhost@evil.example", "localhost@evil.example"),
    ],
)
def test_name_without_port(header: str, name: str) -> None:
    """Of a Host header, whatever is in it."""
    assert host_name(header) == name
