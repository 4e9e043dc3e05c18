"""LimitedLog: clients cannot fill the disk with log lines."""

import logging

from runtime.log_limit import LimitedLog


def test_lines_beyond_the_limit_are_counted(caplog):
    """A limit per second; the next line has the count."""
    now = [100.0]
    limited = LimitedLog(logging.getLogger("test"), lines=2, monotonic=lambda: now[0])
    for number in range(5):
        limited.warning("line %d", number)
    now[0] += 1
    limited.warning("line %d", 5)
    limited.warning("line %d", 6)

    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["line 0", "line 1", "line 5 (3 more like this were not logged)", "line 6"]


def test_the_limit_may_span_many_seconds(caplog):
    """A request that another node never answers is repeated for minutes."""
    now = [100.0]
    limited = LimitedLog(logging.getLogger("test"), lines=1, seconds=30, monotonic=lambda: now[0])
    for number in range(61):
        limited.warning("line %d", number)
        now[0] += 1

    messages = [record.getMessage() for record in caplog.records]
    left_out = "(29 more like this were not logged)"
    assert messages == ["line 0", f"line 30 {left_out}", f"line 60 {left_out}"]
