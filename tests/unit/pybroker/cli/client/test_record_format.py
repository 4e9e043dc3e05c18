"""Formats of records."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from pybroker.cli.client.record_format import as_json, formatted, record_format


class Record:
    """A record of librdkafka, with the methods that formats use."""

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


class RecordWithBadHeader(Record):
    """A record whose header name is not UTF-8; librdkafka's Python raises this on the first call."""

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
def test_format_letters_and_escapes(text: str, expected: bytes) -> None:
    """A record's content is not parsed for letters."""
    assert formatted(Record(), record_format(text), "text") == expected  # type: ignore[arg-type]


def test_encodings_of_key_and_value() -> None:
    record = Record(key=b"k")
    assert formatted(record, record_format("%k %v"), "hex") == b"6b ff256b\n"  # type: ignore[arg-type]
    assert formatted(record, record_format("%k %v"), "base64") == b"aw== /yVr\n"  # type: ignore[arg-type]


@pytest.mark.parametrize(("timestamp", "expected"), [((0, -1), b"-\n"), ((1, 1 << 60), b"1152921504606846976\n")])
def test_timestamps_beyond_the_calendar(timestamp: tuple[int, int], expected: bytes) -> None:
    """None, and one far in the future."""
    record = Record(timestamp=timestamp)
    assert formatted(record, record_format("%D"), "text") == expected  # type: ignore[arg-type]


def test_json_of_binary_values_is_valid() -> None:
    expected = (
        '{"topic": "t", "partition": 3, "offset": 9, "timestamp": 0, "key": null, "value": "\ufffd%k", "headers": []}\n'
    )
    assert as_json(Record(), "text").decode() == expected  # type: ignore[arg-type]


def test_nested_json_is_valid() -> None:
    """Programs write strings with half of a surrogate pair."""
    line = as_json(Record(key=b'{"a": "\\ud800"}'), "text", ["key"])  # type: ignore[arg-type]
    assert b'"key": {"a": "\\ud800"}' in line
    assert json.loads(line.decode())["key"] == {"a": "\ud800"}


@pytest.mark.parametrize("text", ["%x", "%v %", r"\xz"])
def test_bad_format_is_an_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        record_format(text)


def test_header_name_that_is_not_utf8_is_no_error() -> None:
    """After the library's error, the record gets readable headers, which the second %h prints."""
    strange: Any = RecordWithBadHeader()
    assert formatted(strange, record_format("%h %h"), "text").decode() == "\ufffd= \ufffd=\n"
    assert json.loads(as_json(RecordWithBadHeader(), "text"))["headers"] == [["\ufffd", None]]  # type: ignore[arg-type]
