"""Parse times on a command line: `2026-01-01T00:00`, `-5m`, `now`, `@1767225600000`."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
#: Java's, without signs.
_DURATION = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{0,9})?)S)?)?", re.IGNORECASE | re.ASCII
)


_LATEST_MS = 1 << 62  # far from what fits into a request; what is before the epoch would mean something else there


def time_ms(text: str, now_ms: int) -> int:
    """Return milliseconds since the epoch. A time without a zone is local. Raises ArgumentTypeError."""
    found = _time_ms(text, now_ms)
    if not 0 <= found <= _LATEST_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970, or too late")
    return found


def _time_ms(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    if re.fullmatch(r"@\d+", text):
        return int(text[1:])
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 2026-01-01T00:00, -5m (ms, s, m, h, d, w), now, or @ and milliseconds"
        ) from None


def utc_time_ms(text: str) -> int:
    """Parse a time as Kafka's tools do, `2026-01-01T00:00:00.000`; UTC without a zone. Raises ArgumentTypeError."""
    try:
        moment = datetime.fromisoformat(text)
        found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        found = -1
    if found < 0 or "T" not in text.upper():
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-01-01T00:00:00.000")
    return found


def duration_ms(text: str) -> int:
    """Return the milliseconds of `P1DT2H3M4.5S`. Raises ArgumentTypeError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as P1DT2H3M4S")
    days, hours, minutes = (int(each or 0) for each in found.groups()[:3])
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + round(float((found[4] or "0").replace(",", ".")) * 1000)
