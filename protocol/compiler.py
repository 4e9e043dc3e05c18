"""Source generation for decoders and encoders: the parts that both use."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from protocol.primitives import Primitive
from protocol.struct_types import Array, Field, MessageType, StructType, default_expression


class Source:
    """The lines of a generated function, and the namespace that it runs in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self.indent = 0
        self._names = 0

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, stem: str) -> str:
        """Return a local name that is not used yet."""
        self._names += 1
        return f"{stem}{self._names}"

    def bind(self, stem: str, value: object) -> str:
        """Return a global name for `value`; the same object always gets the same name."""
        for name, bound in self.namespace.items():
            if bound is value:
                return name
        name = self.name(stem)
        self.namespace[name] = value
        return name

    def default(self, field: Field) -> str:
        """Return an expression for the default of a field."""
        namespace: dict[str, object] = {}
        expression = default_expression(field, namespace)
        for name, value in namespace.items():  # at most one
            expression = expression.replace(name, self.bind("default", value))
        return expression

    def layout(self, codes: str) -> struct.Struct:
        """Return the big-endian Struct for these codes."""
        return struct.Struct(">" + codes)

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Compile the lines and return the function with this name; `title` appears in tracebacks."""
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), self.namespace)
        compiled: Callable[..., Any] = self.namespace[function]
        return compiled


class Layout:
    """The fields of a struct that are encoded in one version of one message, and their encoding."""

    def __init__(self, struct_type: StructType, version: int, flexible: bool) -> None:
        present = [field for field in struct_type.fields if version in field.versions]
        self.plain = [field for field in present if field.tag is None]
        self.tagged = sorted((field for field in present if field.tag is not None), key=tag_of)
        self.absent = [field for field in struct_type.fields if version not in field.versions]
        self.flexible = flexible
        if self.tagged and not flexible:
            raise TypeError(f"{struct_type.name} v{version} has tagged fields but is not flexible")


def tag_of(field: Field) -> int:
    """Return the tag number of a field."""
    assert field.tag is not None
    return field.tag


def least_size(kind: Primitive | Array | StructType, version: int, flexible: bool, nullable: bool = False) -> int:
    """Return the minimum number of bytes of a value, which limits the number of elements an array can have."""
    if isinstance(kind, StructType):
        if nullable:
            return 1
        parts = [
            least_size(field.type, version, flexible and field.flexible, version in field.nullable)
            for field in Layout(kind, version, flexible).plain
        ]
        return sum(parts) + flexible
    if isinstance(kind, Array):
        return 1 if flexible else 4
    return 1 if flexible and not kind.code else kind.size


def has_records(kind: Primitive | Array | StructType, version: int) -> bool:
    """Return whether the type contains a field of type `records` in this version."""
    if isinstance(kind, Array):
        return has_records(kind.element, version)
    if isinstance(kind, StructType):
        return any(version in field.versions and has_records(field.type, version) for field in kind.fields)
    return kind.name == "records"


def title(message: MessageType, version: int, verb: str) -> str:
    """Return a name for the generated code, for tracebacks and profiles."""
    return f"{verb} {message.name} v{version}"
