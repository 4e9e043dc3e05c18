"""Names that clients choose, in a form that is safe to log."""

from __future__ import annotations

from collections.abc import Sequence

#: The length of the longest topic name.
_LONGEST = 249
#: The most names that are listed.
_MOST_NAMES = 20


def log_text(text: str) -> str:
    """Return the text on one line, without terminal control sequences, and cut to a readable length."""
    shown = one_line(text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}... ({len(text)} characters)"


def one_line(text: str) -> str:
    """Return the text on one line, without terminal control sequences."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def first_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are; "none" for an empty list."""
    others = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {others} more" if others > 0 else "") or "none"
