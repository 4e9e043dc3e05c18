"""Lines as Kafka's console producer reads them."""

from __future__ import annotations

import pytest

from pybroker.ship.line_reader import BadLine, LineReader

KEY = ("parse.key", "true")
HEADERS = ("parse.headers", " TRUE")
GO_ON = ("ignore.error", "true")
NULL = ("null.marker", "NULL")


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ([], b"a\tb", (None, b"a\tb", [])),
        ([], b"dos\r", (None, b"dos", [])),
        ([KEY], b"a\tb\tc", (b"a", b"b\tc", [])),
        ([KEY, ("key.separator", "::")], b"::b", (b"", b"b", [])),
        ([("key.separator", ":")], b"a:b", (None, b"a:b", [])),
        ([KEY, GO_ON], b"nothing", (None, b"nothing", [])),
        ([KEY, NULL], b"17\tNULL", (b"17", None, [])),
        ([KEY, NULL], b"NULL\t", (None, b"", [])),
        ([HEADERS, KEY], b"h:1,i:x:y\tk\tv", (b"k", b"v", [("h", b"1"), ("i", b"x:y")])),
        ([HEADERS], b"h:1,,\tv", (None, b"v", [("h", b"1")])),
        ([HEADERS, NULL], b"NULL\tv", (None, b"v", [])),
        ([HEADERS, NULL], b"h:NULL\tv", (None, b"v", [("h", None)])),
        ([HEADERS, GO_ON], b"h\tv", (None, b"v", [("h", None)])),
        (
            [HEADERS, ("headers.delimiter", "|"), ("headers.separator", ";"), ("headers.key.separator", "=")],
            b"a=1;b=2|v",
            (None, b"v", [("a", b"1"), ("b", b"2")]),
        ),
    ],
)
def test_parts_of_lines_are_split(
    properties: list[tuple[str, str]],
    line: bytes,
    expected: tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]],
) -> None:
    """Key, value and headers."""
    assert LineReader(properties)(line) == expected


@pytest.mark.parametrize(
    ("properties", "line", "problem"),
    [
        ([KEY], b"nothing", "^there is no key separator in it$"),
        ([HEADERS], b"nothing", "^there is no headers delimiter in it$"),
        ([HEADERS], b"h\tv", "^there is no header key separator in 'h'$"),
        ([HEADERS, NULL], b"NULL:1\tv", "^a header's name cannot be null$"),
    ],
)
def test_incomplete_line_is_an_error(properties: list[tuple[str, str]], line: bytes, problem: str) -> None:
    """Unless errors are ignored."""
    with pytest.raises(BadLine, match=problem):
        LineReader(properties)(line)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ([("parse.keys", "true")], "unknown property parse.keys; known: parse.key, "),
        ([("key.separator", "")], "key.separator is empty"),
        ([("headers.separator", ":")], "headers.separator and headers.key.separator are equal"),
        ([("null.marker", ",")], "null.marker and headers.separator are equal"),
    ],
)
def test_invalid_properties_are_rejected(properties: list[tuple[str, str]], problem: str) -> None:
    """Unknown ones may be misspelt. Kafka's producer rejects the others too."""
    with pytest.raises(ValueError, match=problem):
        LineReader(properties)
