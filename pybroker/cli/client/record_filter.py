"""Filters of records: `--filter key=REGEX`, `value=REGEX`, `header.NAME=REGEX`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.headers import headers_of

if TYPE_CHECKING:
    from confluent_kafka import Message

Test = Callable[["Message"], bool]

_HEADER = "header."


def record_filter(text: str) -> Test:
    """Parse a filter into a test of a record. Raises ArgumentTypeError."""
    part, equals, pattern = text.partition("=")
    try:
        regex = re.compile(pattern.encode(), re.DOTALL)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if equals and part == "key":
        return lambda message: _matches(regex, message.key())
    if equals and part == "value":
        return lambda message: _matches(regex, message.value())
    if equals and part.startswith(_HEADER) and part != _HEADER:
        name = part.removeprefix(_HEADER)
        return lambda message: any(each == name and _matches(regex, value) for each, value in headers_of(message))
    raise argparse.ArgumentTypeError(f"{text!r} is not key=REGEX, value=REGEX or header.NAME=REGEX")


def passes(message: Message, tests: Sequence[Test]) -> bool:
    """Return whether a record passes all filters."""
    return all(test(message) for test in tests)


def _matches(regex: re.Pattern[bytes], data: bytes | str | None) -> bool:
    """Return whether the expression matches anywhere in the bytes; None matches nothing."""
    if data is None:
        return False
    return regex.search(data.encode() if isinstance(data, str) else data) is not None
