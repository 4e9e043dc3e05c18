"""What strangers call things, as a log can say it."""

from __future__ import annotations

import pytest

from broker.log_text import log_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("User:ünal mit Leerzeichen", "User:ünal mit Leerzeichen"),
        ("t\nPrincipal = User:admin is Allowed", r"t\nPrincipal = User:admin is Allowed"),
        ("\x1b[2J\0\u2028\u202e\ud800", r"\x1b[2J\x00\u2028\u202e\ud800"),
        ("n" * 249, "n" * 249),
        ("n" * 250, "n" * 249 + "... (250 characters)"),
    ],
)
def test_names(text: str, shown: str) -> None:
    assert log_text(text) == shown
