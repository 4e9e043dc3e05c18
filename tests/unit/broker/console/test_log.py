"""Log records of the broker, on their way to its console."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from broker.console.log import ConsoleLog


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("broker.test", logging.INFO, __file__, 1, text, arguments, None)


def test_records_are_lines_on_a_pipe() -> None:
    """Long lines are cut. A full or closed pipe does not block."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    log = ConsoleLog(writer)
    log.emit(record("two\nlines of %s", "text"))
    assert os.read(reader, 4096).endswith(b" INFO broker.test: two\\nlines of text\n")
    log.emit(record("\u00e4" * 100_000))
    assert len(os.read(reader, 100_000)) == 4096
    for _ in range(100):  # more than the pipe buffers
        log.emit(record("x" * 4000))
    held = os.read(reader, 1 << 20)
    assert 0 < held.count(b"\n") < 100
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    log.emit(record("nobody reads"))
    os.close(writer)


def test_line_in_progress_is_written_before_the_close() -> None:
    """Nothing is written after the close, as the descriptor's number may be reused for a segment."""
    reader, writer = os.pipe()
    log = ConsoleLog(writer)
    formats, goes_on = threading.Event(), threading.Event()

    class Slow(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            formats.set()
            goes_on.wait(60)
            return "on its way"

    log.setFormatter(Slow())
    telling = threading.Thread(target=log.handle, args=(record("a line"),))
    telling.start()
    assert formats.wait(60)

    def let_go() -> None:
        log.let_go()
        os.close(writer)

    ending = threading.Thread(target=let_go)
    ending.start()
    goes_on.set()
    telling.join()
    ending.join()
    log.handle(record("too late"))
    with open(reader, "rb") as pipe:
        assert pipe.read() == b"on its way\n"


def test_bad_log_arguments_are_reported_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the logging module; the caller gets no exception."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    reader, writer = os.pipe()
    ConsoleLog(writer).handle(record("%d", "no number"))
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""
    assert "no number" in capsys.readouterr().err
