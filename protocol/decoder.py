"""Decoders: one function without branches per message and version, generated and compiled on first use.

In the generated code `b` is the buffer, `p` the position, `z` the end, and `r` the number of array elements and tagged
fields that are still allowed. Neighbouring fields of fixed size, and the length or count of the field after them, are
read by one `struct` call. Reading beyond the end raises IndexError or struct.error. Slices are checked explicitly. An
array cannot have more elements than the remaining bytes can hold, nor more than `r`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from protocol.compiler import Layout, Source, has_records, least_size, tag_of, title
from protocol.error_codes import ProtocolError
from protocol.primitives import Primitive, length_rest, read_unsigned_varint, skip_tagged_fields
from protocol.struct_types import Array, Field, MessageType, ReadBuffer, Struct, StructType


def compile_decoder(message: MessageType, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
    """Generate the function (buffer, position) -> (value, end)."""
    return DecoderWriter(message, version).compile()


def raise_truncated() -> NoReturn:
    raise ProtocolError("the bytes end before the message does")


def raise_too_many(limit: int) -> NoReturn:
    raise ProtocolError(f"more than {limit} elements and tagged fields")


def raise_too_long(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is longer than a string may be")


def raise_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is null or has a negative length")


# An array of numbers is decoded by one call without an object per element, so this many numbers count as one element.
NUMBERS_PER_ELEMENT = 8

# Strings as Java decodes them: invalid UTF-8 becomes replacement characters.
_READING = {"string": 'str(b[p:q], "utf-8", "replace")', "bytes": "bytes(b[p:q])", "records": "b[p:q]"}


class DecoderWriter:
    """Generates the source of one decoder."""

    def __init__(self, message: MessageType, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.source = Source()
        self.source.namespace.update(
            truncated=raise_truncated,
            null=raise_null,
            too_long=raise_too_long,
            too_many=partial(raise_too_many, message.max_elements),
            length_rest=length_rest,
            varint=read_unsigned_varint,
            skip_tagged=skip_tagged_fields,
            unpack_from=struct.unpack_from,
            ProtocolError=ProtocolError,
            MALFORMED=(IndexError, struct.error),
        )
        self.run: list[tuple[str, str]] = []  # (struct code, target) of fixed-size values that are not read yet

    def compile(self) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        write = self.source
        write("def decode(b, p):")
        write.indent = 1
        if has_records(self.message, self.version):
            write("if type(b) is not memoryview: b = memoryview(b)")
        else:  # slices of bytes cost half as much as slices of memoryviews, and no value refers to the buffer
            write("if type(b) is not bytes: b = bytes(b)")
        write("z = len(b)")
        write(f"r = {self.message.max_elements}")
        write("try:")
        write.indent = 2
        self.struct(self.message, "value")
        self.flush()
        write("return value, p")
        write.indent = 1
        write("except MALFORMED:")
        write(f'    raise ProtocolError("{self.message.name} v{self.version}: the bytes end too early") from None')
        return write.compile("decode", title(self.message, self.version, "decode"))

    # Fixed-size values are collected and read together, before anything that needs the position.

    def flush(self) -> None:
        write, run = self.source, self.run
        if not run:
            return
        layout = write.layout("".join(code for code, _ in run))
        if layout.size == 1 and run[0][0] == "B":
            write(f"{run[0][1]} = b[p]")
        else:
            unpack = write.bind("unpack", layout.unpack_from)
            write(f"{', '.join(target for _, target in run)}, = {unpack}(b, p)")
        write(f"p += {layout.size}")
        run.clear()

    def struct(self, kind: StructType, target: str) -> None:
        """Write code that reads a struct into the local variable `target`."""
        write = self.source
        layout = Layout(kind, self.version, self.flexible)
        write(f"{target} = {write.bind('make', kind.value_class)}()")
        for field in layout.absent + layout.tagged:
            write(f"{target}.{field.name} = {write.default(field)}")
        for field in layout.plain:
            self.value(field, field.type, f"{target}.{field.name}", self.version in field.nullable)
        if self.flexible:
            self.tagged_fields(kind, layout, target)

    def value(self, field: Field, kind: Primitive | Array | StructType, target: str, nullable: bool) -> None:
        """Write code that reads one value into `target`, an attribute or a local variable."""
        compact = self.flexible and field.flexible
        if isinstance(kind, Array):
            self.array(field, kind.element, target, nullable, compact)
        elif isinstance(kind, StructType):
            self.nested(kind, target, nullable)
        elif kind.code:
            self.run.append((kind.code, target))
        else:
            self.variable(field, kind, target, nullable, compact)

    def length(self, code: str, field: Field, target: str, nullable: bool, compact: bool) -> str:
        """Write code that reads a length or count of at least 0, and return its local variable.

        Opens an `else:` block for the value if it may be null.
        """
        write = self.source
        name = write.name("n")
        self.run.append(("B" if compact else code, name))
        self.flush()
        if compact:
            write(f"if {name} > 127: {name}, p = length_rest(b, p, {name})")
            write(f"{name} -= 1")
            if code == "h":
                write(f"if {name} > 32767: too_long({field.name!r})")
        if nullable:
            write(f"if {name} < 0: {target} = None")
            write("else:")
            write.indent += 1
        else:
            write(f"if {name} < 0: null({field.name!r})")
        return name

    def variable(self, field: Field, kind: Primitive, target: str, nullable: bool, compact: bool) -> None:
        """Write code that reads a string, bytes or records."""
        write = self.source
        if compact and kind.name == "string":
            self.compact_string(field, target, nullable)
            return
        name = self.length("h" if kind.name == "string" else "i", field, target, nullable, compact)
        write(f"q = p + {name}")
        write("if q > z: truncated()")
        write(f"{target} = {_READING[kind.name]}")
        write("p = q")
        write.indent -= nullable

    def compact_string(self, field: Field, target: str, nullable: bool) -> None:
        """Write code that reads a string whose length + 1 is a varint. Null and empty strings, which are frequent, need
        no slice.
        """
        write = self.source
        size = write.name("n")
        self.run.append(("B", size))
        self.flush()
        absent = "None" if nullable else f"null({field.name!r})"
        write(f"if {size} > 127: {size}, p = length_rest(b, p, {size})")
        write(f'if {size} < 2: {target} = "" if {size} == 1 else {absent}')
        write("else:")
        write.indent += 1
        write(f"if {size} > 32768: too_long({field.name!r})")
        write(f"q = p + {size} - 1")
        write("if q > z: truncated()")
        write(f"{target} = {_READING['string']}")
        write("p = q")
        write.indent -= 1

    def nested(self, kind: StructType, target: str, nullable: bool) -> None:
        write = self.source
        if nullable:
            present = write.name("n")
            self.run.append(("b", present))
            self.flush()
            write(f"if {present} < 0: {target} = None")
            write("else:")
            write.indent += 1
        name = write.name("s")
        self.struct(kind, name)
        write(f"{target} = {name}")
        if nullable:
            self.flush()
            write.indent -= 1

    def array(self, field: Field, element: Primitive | StructType, target: str, nullable: bool, compact: bool) -> None:
        write = self.source
        count = self.length("i", field, target, nullable, compact)
        size = least_size(element, self.version, compact)
        write(f"if {count} * {size} > z - p: truncated()" if size != 1 else f"if {count} > z - p: truncated()")
        is_number = isinstance(element, Primitive) and bool(element.code) and element.size < 16
        write(f"r -= {count} // {NUMBERS_PER_ELEMENT}" if is_number else f"r -= {count}")
        write("if r < 0: too_many()")
        if isinstance(element, Primitive) and is_number:
            # A struct for one number: arrays with one element are frequent, and a new format string would cost twice as
            # much.
            one = write.bind("unpack", struct.Struct(f">{element.code}").unpack_from)
            write(f'{target} = list({one}(b, p) if {count} == 1 else unpack_from(f">{{{count}}}{element.code}", b, p))')
            write(f"p += {count} * {size}")
        elif isinstance(element, Primitive) and element.code:
            write(f"q = p + {count} * 16")
            write(f"{target} = [bytes(b[i:i + 16]) for i in range(p, q, 16)]")
            write("p = q")
        else:
            items, item = write.name("items"), write.name("s")
            write(f"{target} = {items} = []")
            write(f"for _ in range({count}):")
            write.indent += 1
            if isinstance(element, StructType):
                self.struct(element, item)
            else:
                self.value(field, element, item, False)
            self.flush()
            write(f"{items}.append({item})")
            write.indent -= 1
        write.indent -= nullable

    def tagged_fields(self, kind: StructType, layout: Layout, target: str) -> None:
        """Write code that reads the tagged fields at the end of a struct: count, then (tag, size, value) each.

        Unknown fields are skipped. As in Kafka, the size is used only for unknown fields: a known field ends where its
        value ends.
        """
        write = self.source
        count = write.name("n")
        self.run.append(("B", count))
        self.flush()
        if not layout.tagged:
            write(f"if {count}:")
            write(f"    p, {count} = skip_tagged(b, p, {count}, z)")
            write(f"    r -= {count}")
            write("    if r < 0: too_many()")
            return
        tag, end = write.name("t"), write.name("e")
        write(f"if {count}:")
        write.indent += 1
        write(f"if {count} > 127: {count}, p = length_rest(b, p, {count})")
        write(f"if not 0 <= {count} <= r: too_many()")
        write(f"for _ in range({count}):")
        write.indent += 1
        write("r -= 1")
        write(f"{tag}, p = varint(b, p)")
        write(f"{end}, p = varint(b, p)")
        write(f"{end} += p")
        branch = "if"
        for field in layout.tagged:
            write(f"{branch} {tag} == {tag_of(field)}:")
            write.indent += 1
            self.tagged_value(field, f"{target}.{field.name}")
            self.flush()
            write.indent -= 1
            branch = "elif"
        write("else:")
        write(f"    p = {end}")
        write("    if p > z: truncated()")
        write.indent -= 2

    def tagged_value(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        if not (nullable and isinstance(field.type, StructType)):
            self.value(field, field.type, target, nullable)
            return
        write = self.source  # a nullable struct in a tagged field has 0 or 1 as an unsigned varint in front
        present = write.name("n")
        write(f"{present}, p = varint(b, p)")
        write(f"if not {present}: {target} = None")
        write("else:")
        write.indent += 1
        self.nested(field.type, target, False)
        self.flush()
        write.indent -= 1
