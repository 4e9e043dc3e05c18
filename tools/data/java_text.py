"""Bytes and values as Java prints them: UTF-8 with replacement characters, Jackson's JSON, numbers, optional values.

Output made here equals that of Apache Kafka's tools, line by line. Nothing parses it again.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
from typing import TypeAlias

from protocol.id_text import id_text
from protocol.schema import Array, Field, Message, Struct, StructType

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_CONTROL = re.compile(r"[\x00-\x1f]")
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Replace each sequence that Java takes for malformed: as Python does, except for encoded surrogates."""
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] and data[start + 1] & 0xE0 == 0xA0:
        third = data[start + 2 : start + 3]
        return _REPLACEMENT, start + (3 if third and third[0] & 0xC0 == 0x80 else 2)
    return _REPLACEMENT, error.end


codecs.register_error("java", _replace_as_java)


def decode(data: bytes) -> str:
    """Decode bytes as UTF-8 the way Java does; this never fails."""
    return data.decode("utf-8", "java")


def optional_long(value: int | None) -> str:
    """An OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def double(value: float) -> str:
    """Return a double as Java prints it: with decimals from 0.001 to 10,000,000, else with an exponent."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value:.1f}" if value == int(value) else repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = max(len(mantissa.replace("-", "").replace(".", "").strip("0")) - 1, 1)
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def to_json(value: JsonValue) -> str:
    """Return JSON as Jackson writes it: no spaces, only necessary escapes, control characters in capital hex digits."""
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{_CONTROL.sub(_escape, quoted)}"'
    if isinstance(value, dict):
        return "{" + ",".join(f'"{key}":{to_json(item)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return double(value) if isinstance(value, float) else json.dumps(value)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def message_json(message: Message, version: int, value: Struct) -> JsonValue:
    """Convert a message as Kafka's generated converters do: the fields in order, tagged ones if not default."""
    return _struct_json(message, version, value)


def _struct_json(struct: StructType, version: int, value: Struct) -> JsonValue:
    found: dict[str, JsonValue] = {}
    for field in struct.fields:
        if version in field.versions:
            item = getattr(value, field.name)
            if field.tag is None or item != field.default:
                found[json_name(field)] = _value_json(field.type, version, item)
    return found


def _value_json(kind: object, version: int, value: object) -> JsonValue:
    if value is None:
        return None
    if isinstance(kind, StructType):
        assert isinstance(value, Struct)
        return _struct_json(kind, version, value)
    if isinstance(kind, Array):
        assert isinstance(value, list)
        return [_value_json(kind.element, version, item) for item in value]
    if isinstance(value, bytes):
        return id_text(value) if str(kind) == "uuid" else base64.b64encode(value).decode()
    assert isinstance(value, bool | int | float | str)
    return value


def json_name(field: Field) -> str:
    """Return the name of a field in Kafka's JSON; KRaft is one word in our names and two in Kafka's."""
    first, *rest = field.name.split("_")
    return "".join(("kRaft" if first == "kraft" else first, *map(str.capitalize, rest)))


def constant_name(message: Message) -> str:
    """Return the name of a record type in Kafka's enums, such as FEATURE_LEVEL_RECORD."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.name).upper()
