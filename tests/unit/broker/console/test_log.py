"""What the broker logs, on the way to its console."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from broker.console.log import ConsoleLog


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("broker.test", logging.INFO, __file__, 1, text, arguments, None)


def test_lines_on_a_pipe() -> None:
    """One for each record, cut where it is long; nobody waits for who does not read, or is gone."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    log = ConsoleLog(writer)
    log.emit(record("two\nlines of %s", "text"))
    assert os.read(reader, 4096).endswith(b" INFO broker.test: two\\nlines of text\n")
    log.emit(record("\u00e4" * 100_000))
    assert len(os.read(reader, 100_000)) == 4096
    for _ in range(100):  # more than the pipe holds
        log.emit(record("x" * 4000))
    held = os.read(reader, 1 << 20)
    assert 0 < held.count(b"\n") < 100
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    log.emit(record("nobody reads"))
    os.close(writer)


def test_a_line_on_its_way_is_written_before_the_pipe_is_let_go() -> None:
    """And none after it: the descriptor's number may be that of a segment by then."""
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
    with open(reader, "rb") as told:
        assert told.read() == b"on its way\n"


def test_arguments_that_do_not_fit_are_not_raised_where_it_is_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told of on standard error, as logging does where nobody has told it not to."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    reader, writer = os.pipe()
    ConsoleLog(writer).handle(record("%d", "no number"))
    os.close(writer)
    with open(reader, "rb") as told:
        assert told.read() == b""
    assert "no number" in capsys.readouterr().err
