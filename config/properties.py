"""Properties files (see `pybroker.java_properties`), with errors as ConfigError."""

from __future__ import annotations

from pybroker.java_properties import Property, UnreadableProperties
from pybroker.java_properties import parse_properties as parse

from .errors import ConfigError, Problem


def parse_properties(data: bytes, name: str = "", *, is_utf8: bool = False) -> list[Property]:
    """Return the entries of a file in order, including duplicates; `name` is the file's name in errors.

    `is_utf8`: reject files in Latin-1.
    Raises ConfigError with the line of the first syntax error.
    """
    try:
        return parse(data, is_utf8=is_utf8)
    except UnreadableProperties as error:
        problem = Problem(error.entry, None, error.reason, error.allowed, f"{name}:{error.line}")
        raise ConfigError(problem) from None
