"""Requests and responses of the reader process, run in this process."""

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
    """Return the response frames, with kind and content."""
    asked, answer = io.BytesIO(), io.BytesIO()
    for request in requests:
        write_json(asked, REQUEST, request)
    asked.seek(0)
    serve(asked, answer)
    answer.seek(0)
    frames = []
    while (frame := read_frame(answer)) is not None:
        frames.append((frame[0], json.loads(frame[1])))
    return frames


def test_error_is_answered_and_the_next_request_served() -> None:
    errors = answered(NOWHERE, {"do": "nothing"}, NOWHERE)

    assert [kind for kind, _ in errors] == [ERROR, ERROR, ERROR]
    assert [answer["error"] for _, answer in errors] == ["UnusableOption"] * 3
    assert errors[1][1]["message"] == "unknown request 'nothing'"


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (CorruptFile("a file", "odd"), {"error": "DamagedLog", "message": "a file: odd"}),
        (PermissionError(13, "no"), {"error": "SourceError", "message": "[Errno 13] no"}),
    ],
)
def test_engine_errors_are_errors_of_the_reader(
    monkeypatch: pytest.MonkeyPatch, error: Exception, answer: dict[str, str]
) -> None:
    def fail(exchange: Exchange) -> None:
        raise error

    monkeypatch.setattr(log_requests, "plan", fail)

    assert answered(NOWHERE) == [(ERROR, answer)]


def test_unexpected_error_is_reported_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(exchange: Exchange) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(log_requests, "plan", fail)

    answer = {"error": "SourceError", "message": "ZeroDivisionError: by nothing"}
    assert answered(NOWHERE, NOWHERE) == [(ERROR, answer)] * 2
    assert "in fail" in capsys.readouterr().err


def test_closed_output_ends_the_process() -> None:
    """It is not reported as a disk error."""

    class Closed(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise BrokenPipeError

    asked = io.BytesIO()
    write_json(asked, REQUEST, NOWHERE)
    asked.seek(0)

    with pytest.raises(BrokenPipeError):
        serve(asked, Closed())


def test_truncated_request_ends_the_process() -> None:
    """Its parent has died."""
    answer = io.BytesIO()

    serve(io.BytesIO(REQUEST), answer)

    assert answer.getvalue() == b""


def test_unexpected_frame_ends_the_process() -> None:
    asked = io.BytesIO()
    write_frame(asked, BATCH, b"rows")
    asked.seek(0)

    with pytest.raises(SystemExit):
        serve(asked, io.BytesIO())


def test_empty_directory_of_partitions_has_no_rows(tmp_path: Path) -> None:
    """A partition that was created but never written to."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()

    assert answered({**NOWHERE, "path": str(tmp_path)}) == [(ANSWER, [])]
