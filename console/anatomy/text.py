"""Values in readable form: printable bytes as text, timestamps as dates."""

from __future__ import annotations

from datetime import UTC, datetime

#: Longer values are cut in the table of fields; the bytes beside it are complete.
_LONGEST = 120


def shown(data: bytes) -> str:
    """Return quoted text if the bytes are printable UTF-8, else hexadecimal; long ones are cut, with dots."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not data or (text and all(each.isprintable() or each in "\t\n\r" for each in text)):
        cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        escaped = cut.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
        return f'"{escaped}"'
    return "0x" + (data.hex() if len(data) <= _LONGEST // 2 else f"{data[: _LONGEST // 2].hex()}…")


def name_text(name: str) -> str:
    r"""Return a name that clients chose, so that it can be seen and entered: `\n` for a line end, quotes for blanks."""
    visible = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name)
    return visible if visible and visible == visible.strip() else f'"{visible}"'


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp in milliseconds as a date in UTC; "none" for -1."""
    if timestamp_ms == -1:
        return "none"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "beyond the calendar"
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def size_text(size_bytes: int) -> str:
    """Return a size with a unit of 1024."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
