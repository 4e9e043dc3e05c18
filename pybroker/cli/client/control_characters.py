"""Escape control characters of records, which a terminal would execute."""

from __future__ import annotations

import re

#: C0 except tabs and line breaks, DEL, C1; and bytes that are not UTF-8, which an old terminal may treat as C1.
_STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")
_ANY = re.compile("[\0-\x1f\x7f-\x9f\udc80-\udcff\\\\]")
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\"}


def for_terminal(line: bytes, *, is_json: bool = False) -> bytes:
    r"""Return a line without control characters: they become \xNN, or \u00NN in JSON."""
    return _replaced(_STEERING, line, "\\u%04x" if is_json else "\\x%02x")


def escaped(octets: bytes) -> bytes:
    r"""Escape all control characters of bytes: also \n, \t and \r become two characters, and \\ is a backslash."""
    return _replaced(_ANY, octets, "\\x%02x")


def _replaced(which: re.Pattern[str], octets: bytes, form: str) -> bytes:
    def shown(found: re.Match[str]) -> str:
        return _SHORT.get(found[0]) or form % (ord(found[0]) & 0xFF)

    return which.sub(shown, octets.decode(errors="surrogateescape")).encode(errors="surrogateescape")
