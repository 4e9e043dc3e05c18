"""The committed corpus: inputs that reach code which the recorded ones do not, and inputs that have shown errors.

A line of corpus.txt has a letter of `targets.py` and the bytes in hexadecimal. A comment above an input describes the
error that it has shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).parent / "corpus.txt"


def corpus() -> Iterator[bytes]:
    """Return inputs in the form for `targets.one_input`."""
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            letter, _, data = line.partition(" ")
            yield letter.encode() + bytes.fromhex(data)


def as_line(data: bytes) -> str:
    """Return an input as a line of the file."""
    return f"{chr(data[0])} {data[1:].hex()}"
