"""What strangers call things, as a log can say it."""

from __future__ import annotations

from collections.abc import Sequence

#: As long as the longest name of a topic.
_LONGEST = 249
#: So many names of a list are told.
_MOST_NAMES = 20


def log_text(text: str) -> str:
    """The text on one line, without what a terminal would obey, and cut where it is too long to be read."""
    shown = text[:_LONGEST]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if len(text) <= _LONGEST else f"{shown}... ({len(text)} characters)"


def first_names(names: Sequence[str]) -> str:
    """The first of a list's names, and how many others there are; "none" where it is empty."""
    others = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {others} more" if others > 0 else "") or "none"
