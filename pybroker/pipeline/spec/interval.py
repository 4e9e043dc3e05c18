"""Spans of time as a specification writes them: 10s, 5 minutes."""

from __future__ import annotations

import re

from pybroker.pipeline.values import SpecError

_INTERVAL = re.compile(r"(\d+) ?(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str, path: str) -> float:
    """Return a span in seconds.

    Errors: SpecError at `path`.
    """
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        raise SpecError(path, f"{text!r} is not an interval such as 10s or 5 minutes")
    unit = found[2]
    milliseconds = unit.startswith(("ms", "milli"))
    return int(found[1]) * (_SECONDS["ms"] if milliseconds else _SECONDS[unit[0]])


def spark_interval(text: str, path: str) -> str:
    """Return a span in Spark's syntax, which lacks the shortest unit names.

    Errors: SpecError at `path`.
    """
    return f"{round(seconds(text, path) * 1000)} milliseconds"
