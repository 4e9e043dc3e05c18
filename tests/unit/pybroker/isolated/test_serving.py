"""Requests and answers of the reader's process, in this one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pybroker.isolated import log_requests
from pybroker.isolated.serving import Exchange, serve
from pybroker.source.bounds import EARLIEST, LATEST, at_offset
from pybroker.source.frames import ANSWER, BATCH, ERROR, REQUEST, read_frame, write_frame, write_json
from storage.errors import CorruptFile

NOWHERE = {
    "do": "plan_log",
    "path": "/nowhere",
    "topics": None,
    "committed": False,
    "start": at_offset(EARLIEST).to_json(),
    "end": at_offset(LATEST).to_json(),
}


def answered(*requests: dict[str, Any]) -> list[tuple[bytes, Any]]:
    """The frames that come back, by kind and content."""
    asked, told = io.BytesIO(), io.BytesIO()
    for request in requests:
        write_json(asked, REQUEST, request)
    asked.seek(0)
    serve(asked, told)
    told.seek(0)
    frames = []
    while (frame := read_frame(told)) is not None:
        frames.append((frame[0], json.loads(frame[1])))
    return frames


def test_error_is_told_and_the_next_request_answered() -> None:
    errors = answered(NOWHERE, {"do": "nothing"}, NOWHERE)

    assert [kind for kind, _ in errors] == [ERROR, ERROR, ERROR]
    assert [told["error"] for _, told in errors] == ["UnusableOption"] * 3
    assert errors[1][1]["message"] == "nobody here does 'nothing'"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CorruptFile("a file", "odd"), {"error": "DamagedLog", "message": "a file: odd"}),
        (PermissionError(13, "no"), {"error": "SourceError", "message": "[Errno 13] no"}),
    ],
)
def test_errors_of_the_engine_have_a_class_of_the_readers(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: dict[str, str]
) -> None:
    def fail(exchange: Exchange) -> None:
        raise error

    monkeypatch.setattr(log_requests, "plan", fail)

    assert answered(NOWHERE) == [(ERROR, told)]


def test_unexpected_error_is_reported_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(exchange: Exchange) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(log_requests, "plan", fail)

    told = {"error": "SourceError", "message": "ZeroDivisionError: by nothing"}
    assert answered(NOWHERE, NOWHERE) == [(ERROR, told)] * 2
    assert "in fail" in capsys.readouterr().err


def test_nobody_reads_the_answer() -> None:
    """That ends the process, and is no error of a disk."""

    class Closed(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise BrokenPipeError

    asked = io.BytesIO()
    write_json(asked, REQUEST, NOWHERE)
    asked.seek(0)

    with pytest.raises(BrokenPipeError):
        serve(asked, Closed())


def test_request_that_breaks_off_is_the_end() -> None:
    """Whoever was just asking has died."""
    told = io.BytesIO()

    serve(io.BytesIO(REQUEST), told)

    assert told.getvalue() == b""


def test_frame_out_of_turn_ends_the_process() -> None:
    asked = io.BytesIO()
    write_frame(asked, BATCH, b"rows")
    asked.seek(0)

    with pytest.raises(SystemExit):
        serve(asked, io.BytesIO())


def test_empty_directory_of_partitions_is_an_answer(tmp_path: Path) -> None:
    """A partition that was made, and into which nothing was written."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()

    assert answered({**NOWHERE, "path": str(tmp_path)}) == [(ANSWER, [])]
