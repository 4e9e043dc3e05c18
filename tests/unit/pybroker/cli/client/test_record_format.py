"""Formats of records."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from pybroker.cli.client.record_format import as_json, formatted, record_format


class Record:
    """What a client library gives, as far as formats ask for it."""

    def __init__(self, *, timestamp: tuple[int, int] = (1, 0), key: bytes | None = None) -> None:
        self._timestamp, self._key = timestamp, key

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 9

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return b"\xff%k"

    def headers(self) -> None:
        return None


class Strange(Record):
    """One with a header whose name is no UTF-8, of which librdkafka's Python says this, the first time."""

    set_to: list[tuple[str, bytes | None]] | None = None

    def headers(self) -> Any:
        if self.set_to is None:
            raise SystemError("<method 'headers'> returned a result with an exception set")
        return self.set_to

    def set_headers(self, headers: list[tuple[str, bytes | None]]) -> None:
        self.set_to = headers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t-%p@%o", b"t-3@9\n"),
        (r"%K %S\0", b"-1 3\0"),
        ("[%k] %v", b"[] \xff%k\n"),
        (r"%%t\t%h\n", b"%t\t\n"),
        ("%T %D", b"0 1970-01-01T00:00:00.000Z\n"),
    ],
)
def test_letters(text: str, expected: bytes) -> None:
    """Escapes too; what a record has is never taken for a letter."""
    assert formatted(Record(), record_format(text), "text") == expected  # type: ignore[arg-type]


def test_encodings() -> None:
    """Of key and value."""
    record = Record(key=b"k")
    assert formatted(record, record_format("%k %v"), "hex") == b"6b ff256b\n"  # type: ignore[arg-type]
    assert formatted(record, record_format("%k %v"), "base64") == b"aw== /yVr\n"  # type: ignore[arg-type]


@pytest.mark.parametrize(("timestamp", "expected"), [((0, -1), b"-\n"), ((1, 1 << 60), b"1152921504606846976\n")])
def test_timestamps_that_no_calendar_has(timestamp: tuple[int, int], expected: bytes) -> None:
    """None at all, and one that is far away."""
    record = Record(timestamp=timestamp)
    assert formatted(record, record_format("%D"), "text") == expected  # type: ignore[arg-type]


def test_json_of_bytes_that_are_no_text() -> None:
    """It stays JSON."""
    expected = (
        '{"topic": "t", "partition": 3, "offset": 9, "timestamp": 0, "key": null, "value": "\ufffd%k", "headers": []}\n'
    )
    assert as_json(Record(), "text").decode() == expected  # type: ignore[arg-type]


def test_json_within_json_is_valid() -> None:
    """Half a surrogate pair in it, too, which a program may well have written."""
    told = as_json(Record(key=b'{"a": "\\ud800"}'), "text", ["key"])  # type: ignore[arg-type]
    assert b'"key": {"a": "\\ud800"}' in told
    assert json.loads(told.decode())["key"] == {"a": "\ud800"}


@pytest.mark.parametrize("text", ["%x", "%v %", r"\xz"])
def test_no_format(text: str) -> None:
    """Told with the text."""
    with pytest.raises(argparse.ArgumentTypeError):
        record_format(text)


def test_header_whose_name_is_no_text() -> None:
    """Is no reason to end, nor to ask again for what the library has broken."""
    strange: Any = Strange()
    assert formatted(strange, record_format("%h %h"), "text").decode() == "\ufffd= \ufffd=\n"
    assert json.loads(as_json(Strange(), "text"))["headers"] == [["\ufffd", None]]  # type: ignore[arg-type]
