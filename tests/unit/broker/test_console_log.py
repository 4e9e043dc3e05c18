"""What the broker logs, on the way to its console."""

from __future__ import annotations

import logging
import os

import pytest

from broker.console_log import ConsoleLog


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
