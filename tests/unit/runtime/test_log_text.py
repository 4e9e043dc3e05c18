"""Names that clients choose, in the log."""

from __future__ import annotations

import pytest

from runtime.log_text import first_names, log_text


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


def test_first_names_of_many() -> None:
    """A readable number of them."""
    assert first_names([]) == "none"
    assert first_names(["a", "b"]) == "a, b"
    assert first_names(["a"] * 20) == ", ".join(["a"] * 20)
    assert first_names(["a"] * 23) == ", ".join(["a"] * 20) + " and 3 more"
