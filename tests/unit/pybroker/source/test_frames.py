"""Frames, complete and truncated."""

from __future__ import annotations

import io

import pytest

from pybroker.source.errors import DamagedLog, SourceError, from_json, to_json
from pybroker.source.frames import ANSWER, BATCH, CutOff, read_frame, write_frame, write_json


def test_frames_are_read_as_written() -> None:
    stream = io.BytesIO()
    write_frame(stream, BATCH, memoryview(b"rows"))
    write_json(stream, ANSWER, {"count": 3})
    write_frame(stream, BATCH, b"")

    assert stream.getvalue().startswith(b"B\0\0\0\x04rows")
    stream.seek(0)
    assert read_frame(stream) == (BATCH, b"rows")
    assert read_frame(stream) == (ANSWER, b'{"count": 3}')
    assert read_frame(stream) == (BATCH, b"")
    assert read_frame(stream) is None


@pytest.mark.parametrize("size", [1, 4, 5, 8])
def test_truncated_frame_is_an_error(size: int) -> None:
    stream = io.BytesIO()
    write_frame(stream, BATCH, b"rows")

    with pytest.raises(CutOff):
        read_frame(io.BytesIO(stream.getvalue()[:size]))


def test_errors_keep_their_class() -> None:
    passed = from_json(to_json(DamagedLog("a file")))

    assert (type(passed), str(passed)) == (DamagedLog, "a file")
    assert type(from_json({"error": "Exception", "message": ""})) is SourceError
