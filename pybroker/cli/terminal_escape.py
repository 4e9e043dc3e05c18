"""What others have named may not steer the terminal that shows it."""

from __future__ import annotations


def harmless(text: str) -> str:
    r"""Without what would steer a terminal: names are whatever a client has chosen. Instead there is \xNN or \uNNNN."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
