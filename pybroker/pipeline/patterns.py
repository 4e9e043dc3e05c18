"""Number the named groups of Java regular expressions: Spark addresses groups by number.

Java allows only letters and digits in the name of a group. Names here are column names, so they are removed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pybroker.pipeline.spec import SpecError

#: Matches parts whose brackets open no group, and the brackets that do. A `]` at the start of a class belongs to it.
_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\k<(?P<again>\w+)>|\\.|(?P<opened>\[\^?\]?)|(?P<closed>\])"
    r"|\(\?<(?P<name>[A-Za-z]\w*)>|(?P<group>\((?!\?))",
    re.DOTALL,
)


class Numbered(NamedTuple):
    """A regular expression without names, the numbers of its named groups, and the number of all groups."""

    pattern: str
    groups: dict[str, int]
    total: int


def numbered(pattern: str) -> Numbered:
    """Remove the names from a regular expression. Errors: SpecError for a duplicate name."""
    groups: dict[str, int] = {}
    count = depth = 0

    def without_name(found: re.Match[str]) -> str:
        nonlocal count, depth
        if found["opened"]:
            depth += 1
        elif found["closed"]:
            depth = max(0, depth - 1)
        elif depth:
            return found[0]
        elif (again := found["again"]) in groups:
            return rf"(?:\{groups[again]})"
        elif found["group"] or found["name"]:
            count += 1
            if found["name"] in groups:
                raise SpecError("parse.pattern", f"two groups are named {found['name']}")
            if found["name"]:
                groups[found["name"]] = count
                return "("
        return found[0]

    return Numbered(_TOKEN.sub(without_name, pattern), groups, count)


def groups_in_java(pattern: str, path: str) -> int:
    """Return how many groups Java finds in a regular expression. Errors: SpecError at `path` if it is invalid."""
    jvm = SparkSession.active()._jvm
    assert jvm is not None
    try:
        return int(jvm.java.util.regex.Pattern.compile(pattern).matcher("").groupCount())
    except (PySparkException, Py4JJavaError) as error:
        raise SpecError(path, f"Java rejects it: {str(error).strip().partition(chr(10))[0]}") from error
