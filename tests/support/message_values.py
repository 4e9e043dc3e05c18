"""Random values for any message and version."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from protocol.primitives import Primitive, records
from protocol.schema import Array, Field, Struct, StructType

TEXTS = ("", "a", "topic-1", "naïve", "日本語", "x" * 126, "y" * 127, "z" * 300)
EDGES = {
    "int8": (-128, -1, 0, 1, 127),
    "int16": (-(2**15), -1, 0, 1, 2**15 - 1),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (-(2**31), -1, 0, 1, 2**31 - 1),
    "uint32": (0, 1, 2**32 - 1),
    "int64": (-(2**63), -1, 0, 1, 2**63 - 1),
    "float64": (0.0, -1.5, 1e300),
    "bool": (False, True),
}


def random_value(random: Random, kind: StructType, version: int) -> Struct:
    """Return a value with something in the fields of the version, and defaults elsewhere.

    Records always have a value: their default is None, which some versions do not allow.
    """
    return kind(
        **{
            field.name: random_field(random, field, version)
            for field in kind.fields
            if version in field.versions and (random.random() > 0.1 or field.type is records)
        }
    )


def random_field(random: Random, field: Field, version: int) -> Any:
    if version in field.nullable and random.random() < 0.3:
        return None
    if isinstance(field.type, Array):
        element = field.type.element
        count = random.choice((0, 1, 1, 2, 3, 130 if isinstance(element, Primitive) else 2))
        return [random_content(random, element, version) for _ in range(count)]
    return random_content(random, field.type, version)


def random_content(random: Random, kind: Primitive | StructType | Array, version: int) -> Any:
    if isinstance(kind, StructType):
        return random_value(random, kind, version)
    assert isinstance(kind, Primitive)
    if kind.name == "string":
        return random.choice(TEXTS)
    if kind.name in {"bytes", "records"}:
        return random.randbytes(random.choice((0, 1, 126, 127, 200)))
    if kind.name == "uuid":
        return random.randbytes(16)
    if random.random() < 0.5:
        return random.choice(EDGES[kind.name])
    if kind.name in {"float64", "bool"}:
        return random.choice(EDGES[kind.name])
    (number,) = struct.unpack(f">{kind.code}", random.randbytes(kind.size))
    return number
