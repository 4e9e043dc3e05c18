"""The committed corpus: inputs that reach what the recorded ones do not, and each that has shown a mistake.

A line of corpus.txt is a letter of `targets.py`, and the bytes for it in hexadecimal. Above an input that showed a
mistake stands a comment that says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).parent / "corpus.txt"


def corpus() -> Iterator[bytes]:
    """Inputs as `targets.one_input` takes them."""
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            letter, _, data = line.partition(" ")
            yield letter.encode() + bytes.fromhex(data)


def as_line(data: bytes) -> str:
    """An input as it stands in the file."""
    return f"{chr(data[0])} {data[1:].hex()}"
