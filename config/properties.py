"""Files of properties (see `pybroker.java_properties`), whose problems are those of a configuration."""

from __future__ import annotations

from pybroker.java_properties import Property, UnreadableProperties
from pybroker.java_properties import parse_properties as parse

from .errors import ConfigError, Problem


def parse_properties(data: bytes, name: str = "") -> list[Property]:
    """The entries of a file in its order, duplicates included; `name` is what errors call the file.

    Raises ConfigError with the line of the first thing that can not be read.
    """
    try:
        return parse(data)
    except UnreadableProperties as error:
        problem = Problem(error.entry, None, error.reason, error.allowed, f"{name}:{error.line}")
        raise ConfigError(problem) from None
