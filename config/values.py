"""Typed values from texts, and texts from typed values, as in Kafka's ConfigDef.

Types: BOOLEAN bool; INT, SHORT, LONG int; DOUBLE float; STRING and CLASS str; LIST tuple of str; PASSWORD `Password`.
None is "no value".
"""

from __future__ import annotations

import re
from enum import IntEnum


class ConfigType(IntEnum):
    """Types of values. The numbers are those of DescribeConfigs v3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Password:
    """A secret. Only `.value` has its text; printing or logging it shows stars."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


ConfigValue = bool | int | float | str | tuple[str, ...] | Password | None

BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
"""The widths of the integer types, all signed."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_JAVA_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_BLANKS = bytes(range(33)).decode()


def trim(text: str) -> str:
    """Return the text without the blanks that Java's String.trim removes: control characters and ASCII spaces."""
    return text.strip(_BLANKS)


def parse(kind: ConfigType, text: str) -> ConfigValue:
    """Return the typed value of `text`. Raises ValueError with the reason in Kafka's words."""
    text = trim(text)
    if kind is ConfigType.STRING or kind is ConfigType.CLASS:
        return text
    if kind is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    if kind is ConfigType.PASSWORD:
        return Password(text)
    if kind is ConfigType.DOUBLE:
        match = _JAVA_DOUBLE.fullmatch(text)
        if match is None:
            raise ValueError("Not a number of type DOUBLE")
        return float(match[1])
    limit = 1 << (BITS[kind] - 1)
    if _WHOLE_NUMBER.fullmatch(text) is None or not -limit <= (number := int(text)) < limit:
        raise ValueError(f"Not a number of type {kind.name}")
    return number


def to_text(value: ConfigValue) -> str | None:
    """Return the text of a typed value, as in DescribeConfigs; None for a secret."""
    if value is None or isinstance(value, Password):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def double_text(value: float) -> str:
    """Return a float as Java prints it: plain from 0.001 to 10,000,000, else `d.dddE±n`; always with a fraction."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(1, 18) if float(text := f"{value:.{digits}e}") == value)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa}E{int(exponent)}"
