"""Layouts of bytes, read from the docstring of the module that writes them.

A layout has items `name type` with bars between them, such as

    relativeOffset int32 | position int32          8 bytes, big-endian

A field without a type is bytes with their length before them. Text after two spaces or in brackets is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

_SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4}
_REMARK = re.compile(r"\s{2,}\S.*$|\((?:-?\w+ \w+|\d+|unused|-1 null)\)|\[v\d: |\]|^\s*\w+: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LayoutField:
    """A field; `size_bytes` is None if the size varies. `kind` is "" for bytes."""

    name: str
    kind: str

    @property
    def size_bytes(self) -> int | None:
        return _SIZES.get(self.kind)


def layout_of(module: str, number: int = 0) -> Sequence[LayoutField]:
    """Return a layout of a module's docstring, by its number there. Raises IndexError."""
    return parse_layout(_blocks(import_module(module).__doc__ or "")[number])


def _blocks(docstring: str) -> list[str]:
    """Return groups of adjacent lines with bars: a line that ends with a bar continues in the next one."""
    blocks: list[str] = []
    goes_on = False
    for line in docstring.split("\n"):
        if "|" in line or goes_on:
            text = line.strip()
            if goes_on:
                blocks[-1] += f" {text}"
            else:
                blocks.append(text)
            goes_on = text.endswith("|")
    return blocks


def parse_layout(text: str) -> Sequence[LayoutField]:
    """Return the fields of a layout in order."""
    fields = []
    for part in _REMARK.sub("", text).split("|"):
        words = part.replace("(", " ").replace(")", " ").replace("...", " ").split()
        if words:
            fields.append(LayoutField(words[0], words[1] if len(words) > 1 else ""))
    return fields
