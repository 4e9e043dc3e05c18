"""Host names of a console."""

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
def test_host_header_is_split_from_its_port(header: str, name: str) -> None:
    """For any header."""
    assert host_name(header) == name
