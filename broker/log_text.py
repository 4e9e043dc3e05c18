"""What strangers call things, as a log can say it."""

from __future__ import annotations

#: As long as the longest name of a topic.
_LONGEST = 249


def log_text(text: str) -> str:
    """The text on one line, without what a terminal would obey, and cut where it is too long to be read."""
    shown = text[:_LONGEST]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if len(text) <= _LONGEST else f"{shown}... ({len(text)} characters)"
