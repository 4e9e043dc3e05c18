"""Parse values of options that several commands have: functions for argparse's `type`."""

from __future__ import annotations

import argparse
import re

_MOST_SECONDS = 86_400


def key_value(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def feature_level(text: str) -> tuple[str, int]:
    """NAME=LEVEL."""
    name, level = key_value(text)
    if not (level.isascii() and level.isdecimal()) or int(level) >= 1 << 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LEVEL")
    return name, int(level)


def keys(text: str) -> list[str]:
    """KEY,..."""
    return text.split(",")


def seconds(text: str) -> float:
    """Parse a time to wait, in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and {_MOST_SECONDS}")
    return value


def positive(text: str) -> int:
    """Parse a count of at least one."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def natural(text: str) -> int:
    """Parse a whole number of at least zero."""
    if not (text.isascii() and text.isdecimal()) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 0")
    return int(text)


def regex(text: str) -> re.Pattern[str]:
    """Parse a regular expression of Python."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None
