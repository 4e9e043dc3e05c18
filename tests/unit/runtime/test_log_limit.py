"""LimitedLog: clients cannot fill the disk with log lines."""

import logging

from runtime.log_limit import LimitedLog


def test_lines_beyond_the_limit_are_counted(caplog):
    """A limit per second; the next line has the count."""
    now = [100.0]
    limited = LimitedLog(logging.getLogger("test"), per_second=2, monotonic=lambda: now[0])
    for number in range(5):
        limited.warning("line %d", number)
    now[0] += 1
    limited.warning("line %d", 5)
    limited.warning("line %d", 6)

    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["line 0", "line 1", "line 5 (3 more like this were not logged)", "line 6"]
