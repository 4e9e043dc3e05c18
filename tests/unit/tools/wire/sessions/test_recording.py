"""The file of a recorded session."""

from __future__ import annotations

from io import BytesIO

import pytest

from tools.wire.sessions.recording import (
    Kind,
    RecordingUnreadable,
    SessionEvent,
    first_line,
    line,
    read,
)

HEAD = first_line("2026-01-01T00:00:00Z", "localhost:9092")
SESSION = [
    SessionEvent(Kind.OPEN, 1, 0.5, node=None),
    SessionEvent(Kind.OPEN, 2, 0.75, node=3),
    SessionEvent(Kind.REQUEST, 2, 1.0, b"\0\x01", api="Fetch", version=4),
    SessionEvent(Kind.ANSWER, 2, 1.25, b"", api="Fetch", version=4),
    SessionEvent(Kind.CLOSE, 1, 2.0, by="client"),
]


def test_session_is_read_as_written() -> None:
    assert list(read(BytesIO(HEAD + b"".join(map(line, SESSION))))) == SESSION


def test_truncated_last_line_is_ignored() -> None:
    """A recorder that is killed leaves one."""
    data = HEAD + b"".join(map(line, SESSION))
    assert list(read(BytesIO(data[:-3]))) == SESSION[:-1]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "line 1 is not a JSON object"),
        (b"\xff\n", "line 1 is not a JSON object"),
        (b"[" * 100_000 + b"\n", "line 1 is not a JSON object"),
        (b"{}\n", "does not begin like a recording"),
        (HEAD.replace(b'"version":1', b'"version":2'), "its version is 2, but only 1 is supported"),
        (HEAD + b"[]\n", "line 2 is not a JSON object"),
        (HEAD + b"{}\n", "line 2 has unknown content"),
        (HEAD + line(SESSION[0]) + line(SESSION[2]).replace(b'"AAE="', b'"A"'), "line 3 has unknown content"),
        (HEAD + line(SESSION[1]).replace(b'"node":3', b'"node":"x"'), "line 2 has unknown content"),
    ],
)
def test_invalid_file_is_rejected(data: bytes, expected: str) -> None:
    """With the line number."""
    with pytest.raises(RecordingUnreadable, match=expected):
        list(read(BytesIO(data)))
