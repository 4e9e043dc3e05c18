"""Control characters in records do not reach the terminal."""

from __future__ import annotations

import json

import pytest

from pybroker.cli.client.control_characters import escaped, for_terminal


@pytest.mark.parametrize(
    ("octets", "shown", "everywhere"),
    [
        (b"plain \xc3\xa4\n", b"plain \xc3\xa4\n", b"plain \xc3\xa4\\n"),
        (b"\x1b]0;title\x07", rb"\x1b]0;title\x07", rb"\x1b]0;title\x07"),
        (b"a\tb\r\n", b"a\tb\\r\n", rb"a\tb\r\n"),
        (b"\xc2\x9b31m\x7f", rb"\x9b31m\x7f", rb"\x9b31m\x7f"),
        (b"\x9b31m \xff", rb"\x9b31m \xff", rb"\x9b31m \xff"),
        (b"C:\\x", b"C:\\x", rb"C:\\x"),
        (b"", b"", b""),
    ],
)
def test_control_characters_are_escaped(octets: bytes, shown: bytes, everywhere: bytes) -> None:
    """Except line breaks and tabs. C1 is escaped as UTF-8 and as single bytes."""
    assert for_terminal(octets) == shown
    assert escaped(octets) == everywhere


def test_json_stays_valid() -> None:
    """JSON has escaped C0 already."""
    row = {"value": "\x1b\x9b\x7fä"}
    line = for_terminal(json.dumps(row, ensure_ascii=False).encode(), is_json=True)
    assert line == '{"value": "\\u001b\\u009b\\u007fä"}'.encode()
    assert json.loads(line) == row
