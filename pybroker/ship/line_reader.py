"""Parse lines like Apache Kafka's console producer: `--reader-property parse.key=true` and similar.

    h1:v1,h2:v2<headers.delimiter>key<key.separator>value

The properties are those of its LineMessageReader. A separator of headers is plain text here, not a regular expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

_SEPARATORS = {
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
_SWITCHES = ("parse.key", "parse.headers", "ignore.error")
KNOWN = (*_SWITCHES, "key.separator", *_SEPARATORS, "null.marker")


class BadLine(Exception):
    """A line lacks a part; the text says which."""


class Parts(NamedTuple):
    """The parts of the record of a line."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class LineReader:
    """A callable that parses a line. Raises ValueError for unknown or contradictory properties."""

    def __init__(self, properties: Iterable[tuple[str, str]]) -> None:
        given = dict(properties)
        if unknown := sorted(given.keys() - set(KNOWN)):
            raise ValueError(f"unknown property {unknown[0]}; known: {', '.join(KNOWN)}")
        texts = {key: given.get(key, text) for key, text in {"key.separator": "\t", **_SEPARATORS}.items()}
        for key, text in texts.items():
            if not text:
                raise ValueError(f"{key} is empty")
            if text == given.get("null.marker"):
                raise ValueError(f"null.marker and {key} are equal")
        for one, other in combinations(_SEPARATORS, 2):
            if texts[one] == texts[other]:
                raise ValueError(f"{one} and {other} are equal")
        self._has_key, self._has_headers, self._goes_on = (
            given.get(switch, "").strip().lower() == "true" for switch in _SWITCHES
        )
        self._behind_key, self._behind_headers, self._between, self._within = (each.encode() for each in texts.values())
        self._null = given["null.marker"].encode() if "null.marker" in given else None

    def __call__(self, line: bytes) -> Parts:
        """Parse a line. Raises BadLine when a part is missing, unless ignore.error is set."""
        rest = line.removesuffix(b"\r")
        headers: list[tuple[str, str | bytes | None]] = []
        key = None
        if self._has_headers:
            header_text, rest = self._parted(rest, self._behind_headers, "headers delimiter")
            headers = [] if header_text is None or header_text == self._null else self._headers(header_text)
        if self._has_key:
            key, rest = self._parted(rest, self._behind_key, "key separator")
        return Parts(self._or_null(key), self._or_null(rest), headers)

    def _parted(self, text: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        before, found, behind = text.partition(separator)
        if found:
            return before, behind
        if not self._goes_on:
            raise BadLine(f"there is no {name} in it")
        return None, text

    def _headers(self, text: bytes) -> list[tuple[str, str | bytes | None]]:
        pairs = text.split(self._between)
        if len(pairs) > 1:  # like Java's split, which drops empty trailing parts
            while pairs and not pairs[-1]:
                pairs.pop()
        headers: list[tuple[str, str | bytes | None]] = []
        for pair in pairs:
            name, found, value = pair.partition(self._within)
            if not found and not self._goes_on:
                raise BadLine(f"there is no header key separator in {pair.decode(errors='replace')!r}")
            if found and name == self._null:
                raise BadLine("a header's name cannot be null")
            headers.append((name.decode(errors="replace"), self._or_null(value) if found else None))
        return headers

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text == self._null else text
