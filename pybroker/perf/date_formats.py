"""Format times in the patterns of Java's SimpleDateFormat, as far as these have only numbers."""

from __future__ import annotations

import re
from datetime import datetime

DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
"""The format of Kafka's tools."""

_FIELDS = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "millisecond"}
#: A quoted text, two quotes, letters of one kind, or other characters
_PART = re.compile(r"'([^']*)'|(([a-zA-Z])\3*)|([^a-zA-Z']+)")


def checked_format(text: str) -> str:
    """Return a format. Raises ValueError for other fields than year to millisecond, and for names."""
    end = 0
    for part in _PART.finditer(text):
        letters = part[2] or ""
        if part.start() != end or (letters and (letters[0] not in _FIELDS or letters.startswith("MMM"))):
            break
        end = part.end()
    if end != len(text):
        raise ValueError(
            f"{text!r} at {text[end:]!r}: the letters are y, M, d, H, m, s and S, texts are in single quotes"
        )
    return text


def format_time(seconds: float, date_format: str = DATE_FORMAT) -> str:
    """Return a time, given in seconds since 1970, in local time. The format is one that `checked_format` returned."""
    when = datetime.fromtimestamp(seconds)

    def shown(part: re.Match[str]) -> str:
        if part[2] is None:
            return part[4] or part[1] or "'"
        letter, width = part[2][0], len(part[2])
        if letter == "y" and width == 2:
            return f"{when.year % 100:02}"
        value = when.microsecond // 1000 if letter == "S" else getattr(when, _FIELDS[letter])
        return f"{value:0{width}}"

    return _PART.sub(shown, date_format)
