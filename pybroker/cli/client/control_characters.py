"""Characters that steer a terminal, in what strangers have written into records: shown, and not sent to it."""

from __future__ import annotations

import re

#: C0 but for tabulators and line breaks, DEL, C1; and bytes that are no UTF-8, which an old terminal may take for C1.
_STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")
_ANY = re.compile("[\0-\x1f\x7f-\x9f\udc80-\udcff\\\\]")
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\"}


def for_terminal(line: bytes, *, is_json: bool = False) -> bytes:
    r"""A line that does nothing to a terminal but be shown: \xNN, or JSON's \u00NN, are in the place of the others."""
    return _replaced(_STEERING, line, "\\u%04x" if is_json else "\\x%02x")


def escaped(octets: bytes) -> bytes:
    r"""Octets of which none is a control character: also \n, \t and \r are two characters, and \\ is a backslash."""
    return _replaced(_ANY, octets, "\\x%02x")


def _replaced(which: re.Pattern[str], octets: bytes, form: str) -> bytes:
    def shown(found: re.Match[str]) -> str:
        return _SHORT.get(found[0]) or form % (ord(found[0]) & 0xFF)

    return which.sub(shown, octets.decode(errors="surrogateescape")).encode(errors="surrogateescape")
