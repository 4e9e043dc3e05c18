"""Names that clients choose cannot send escape sequences to a terminal."""

from __future__ import annotations


def escape_controls(text: str) -> str:
    r"""Replace control characters, which a terminal would execute, by \xNN or \uNNNN."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
