"""Finds exceptions that the broker survives: in a simulation each of them is a failure."""

from __future__ import annotations

import logging

_found: list[BaseException] = []


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            _found.append(record.exc_info[1])


def watch() -> None:
    """Note the exceptions of one world from now on, and print nothing."""
    _found.clear()
    handler = _Handler(logging.ERROR)
    for name in ("broker", "runtime"):
        found = logging.getLogger(name)
        if not any(isinstance(each, _Handler) for each in found.handlers):
            found.addHandler(handler)


def note_problem(error: Exception) -> None:
    """Note an exception that the broker may survive."""
    _found.append(error)


def raise_problems() -> None:
    """Raise the first exception that was logged or noted."""
    if _found:
        first = _found[0]
        _found.clear()
        raise first
