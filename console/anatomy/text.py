"""Values as people read them: bytes as text where they are text, times as dates."""

from __future__ import annotations

from datetime import UTC, datetime

#: More of a value is not shown among the fields; the bytes beside it are all there.
_LONGEST = 120


def shown(data: bytes) -> str:
    """Text in quotes where the bytes are printable UTF-8, else hexadecimal; long ones are cut, with dots."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not data or (text and all(each.isprintable() or each in "\t\n\r" for each in text)):
        cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        escaped = cut.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
        return f'"{escaped}"'
    return "0x" + (data.hex() if len(data) <= _LONGEST // 2 else f"{data[: _LONGEST // 2].hex()}…")


def time_text(timestamp_ms: int) -> str:
    """A timestamp in milliseconds as a date in UTC; "none" for -1."""
    if timestamp_ms == -1:
        return "none"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "no date that a calendar has"
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def size_text(size_bytes: int) -> str:
    """A size with a unit of 1024."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
