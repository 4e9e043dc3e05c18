"""Typed values from texts and back, as in Kafka's ConfigDef."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.values import (
    ConfigType,
    ConfigValue,
    Password,
    parse,
    to_text,
)
from tests.support.scale import scaled


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, " 3 ", 3),
        (ConfigType.LONG, "\x01100\0\0", 100),
        (ConfigType.STRING, "\u2003a\xa0", "\u2003a\xa0"),
        (ConfigType.LIST, "a\u2003,b", ("a\u2003", "b")),
        (ConfigType.INT, "+3", 3),
        (ConfigType.INT, "-2147483648", -(1 << 31)),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false ", False),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.DOUBLE, "0.5f", 0.5),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.STRING, "  gzip ", "gzip"),
        (ConfigType.LIST, "a , b,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.PASSWORD, " x ", Password("x")),
    ],
)
def test_parse(kind: ConfigType, text: str, value: ConfigValue) -> None:
    """Blanks around a value are ignored, as defined by Java."""
    assert value == parse(kind, text)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.INT, "abc", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "3.0", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "٣", "Not a number of type INT"),
        (ConfigType.INT, "0x10", "Not a number of type INT"),
        (ConfigType.LONG, "5minutes", "Not a number of type LONG"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.DOUBLE, "None", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0.5", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
    ],
)
def test_parse_errors_are_kafkas(kind: ConfigType, text: str, reason: str) -> None:
    """The reason is part of the message to clients."""
    with pytest.raises(ValueError, match=reason):
        parse(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (2147483647.0, "2.147483647E9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.25, "-0.25"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (True, "true"),
        ((), ""),
        (("a", "b"), "a,b"),
        (None, None),
        (Password("x"), None),
        (7, "7"),
    ],
)
def test_to_text(value: ConfigValue, text: str | None) -> None:
    """Floats are written as in Java, and secrets are not shown."""
    assert text == to_text(value)


@settings(max_examples=scaled(200))
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip(value: float) -> None:
    """No digit is lost between two brokers that read each other's values."""
    text = to_text(value)
    assert text is not None
    assert value == parse(ConfigType.DOUBLE, text)
