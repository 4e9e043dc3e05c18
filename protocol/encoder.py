"""Encoders: one function without branches per message and version, generated and compiled on first use.

In the generated code `out` is the list of pieces that are not joined yet and `add` is its append method. If the message
has `records`, `chunks` are the finished pieces. Neighbouring fields of fixed size, and the length or count of the field
after them, are packed by one `struct` call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn

from protocol.compiler import Layout, Source, has_records, tag_of, title
from protocol.error_codes import EncodeError
from protocol.primitives import SMALL_VARINTS, Primitive, unsigned_varint
from protocol.struct_types import Array, Chunk, Field, MessageType, Struct, StructType

CANNOT_ENCODE = (AttributeError, TypeError, ValueError, struct.error)


def compile_encoder(message: MessageType, version: int) -> Callable[[Struct], list[Chunk]]:
    """Generate the function value -> chunks."""
    return EncoderWriter(message, version).compile()


class EncoderWriter:
    """Generates the source of one encoder."""

    def __init__(self, message: MessageType, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.source = Source()
        self.source.namespace.update(
            unsupported=raise_unsupported(message, version),
            null=raise_null,
            small=SMALL_VARINTS,
            varint=unsigned_varint,
            pack=struct.pack,
            EncodeError=EncodeError,
            CANNOT_ENCODE=CANNOT_ENCODE,
        )
        self.run: list[tuple[str, str]] = []  # (struct code, expression) of fixed-size values that are not packed yet
        self.chunked = has_records(message, version)

    def compile(self) -> Callable[[Struct], list[Chunk]]:
        write = self.source
        write("def encode(value):")
        write.indent = 1
        write("out = []")
        write("add = out.append")
        if self.chunked:
            write("chunks = []")
        write("try:")
        write.indent = 2
        self.struct(self.message, "value")
        self.flush()
        if self.chunked:
            write('if out: chunks.append(b"".join(out))')
            write("return chunks")
        else:
            write('return [b"".join(out)]')
        write.indent = 1
        write("except CANNOT_ENCODE as error:")
        write(f'    raise EncodeError(f"{self.message.name} v{self.version}: {{error}}") from error')
        return write.compile("encode", title(self.message, self.version, "encode"))

    def flush(self) -> None:
        """Write code that packs the collected fixed-size values."""
        write, run = self.source, self.run
        if not run:
            return
        codes = "".join(code for code, _ in run)
        values = [expression for code, expression in run if code != "x"]
        if values:
            write(f"add({write.bind('pack', write.layout(codes).pack)}({', '.join(values)}))")
        else:
            write(f"add({bytes(len(run))!r})")
        run.clear()

    def varint(self, expression: str) -> None:
        """Write code for an unsigned varint; `expression` is a local variable."""
        self.flush()
        self.source(f"add(small[{expression}] if {expression} < 128 else varint({expression}))")

    def struct(self, kind: StructType, value: str) -> None:
        """Write code that adds the struct in a local variable."""
        layout = Layout(kind, self.version, self.flexible)
        for field in layout.absent:
            if not field.ignorable:
                attribute = f"{value}.{field.name}"
                self.source(f"if {self.differs(attribute, self.source.default(field))}: unsupported({field.name!r})")
        for field in layout.plain:
            self.value(field, field.type, f"{value}.{field.name}", self.version in field.nullable)
        if layout.tagged:
            self.tagged_fields(layout, value)
        elif self.flexible:
            self.run.append(("x", ""))

    @staticmethod
    def differs(value: str, default: str) -> str:
        """Return an expression for whether a value differs from its default. The shared default of a struct is compared
        by identity first.
        """
        if default == "None":
            return f"{value} is not None"
        return (
            f"{value} is not {default} and {value} != {default}" if default.isidentifier() else f"{value} != {default}"
        )

    def value(self, field: Field, kind: Primitive | Array | StructType, value: str, nullable: bool) -> None:
        """Write code that adds the value in an attribute or local variable."""
        compact = self.flexible and field.flexible
        if isinstance(kind, Array):
            self.array(field, kind.element, value, nullable, compact)
        elif isinstance(kind, StructType):
            self.nested(kind, value, nullable)
        elif kind.code:
            self.run.append((kind.code, value))
        else:
            self.variable(field, kind, value, nullable, compact)

    def length(self, code: str, name: str, compact: bool) -> None:
        if compact:
            self.varint(name)
        else:
            self.run.append((code, name))
            self.flush()

    def variable(self, field: Field, kind: Primitive, value: str, nullable: bool, compact: bool) -> None:
        """Write code that adds a string, bytes or records."""
        write = self.source
        data, size = write.name("d"), write.name("n")
        encode = ".encode()" if kind.name == "string" else ""
        plus_one = " + 1" if compact else ""
        write(f"{data} = {value}")
        write(f"if {data} is None:")
        if nullable:
            write(f"    {size} = {0 if compact else -1}")
            write(f'    {data} = b""')
        else:
            write(f"    null({field.name!r})")
        write("else:")
        if encode:
            write(f"    {data} = {data}{encode}")
        write(f"    {size} = len({data}){plus_one}")
        if compact and kind.name == "string":
            write(f"    if {size} > 32768: raise ValueError('{field.name} is too long')")
        self.length("h" if kind.name == "string" else "i", size, compact)
        if kind.name == "records":
            write(f"if {size} > {1 if compact else 0}:")
            write('    chunks.append(b"".join(out))')
            write(f"    chunks.append({data})")
            write("    out.clear()")
        else:
            write(f"add({data})")

    def nested(self, kind: StructType, value: str, nullable: bool) -> None:
        write = self.source
        name = write.name("s")
        write(f"{name} = {value}")
        if not nullable:
            self.struct(kind, name)
            return
        self.flush()
        write(f'if {name} is None: add(b"\\xff")')
        write("else:")
        write.indent += 1
        write('add(b"\\x01")')
        self.struct(kind, name)
        self.flush()
        write.indent -= 1

    def array(self, field: Field, element: Primitive | StructType, value: str, nullable: bool, compact: bool) -> None:
        write = self.source
        items, count = write.name("items"), write.name("n")
        write(f"{items} = {value}")
        write(f"if {items} is None:")
        if nullable:
            write(f"    {count} = {0 if compact else -1}")
            write(f"    {items} = ()")
        else:
            write(f"    null({field.name!r})")
        write(f"else: {count} = len({items}){' + 1' if compact else ''}")
        self.length("i", count, compact)
        if isinstance(element, Primitive) and element.code and element.size < 16:
            write(f'if {items}: add(pack(f">{{len({items})}}{element.code}", *{items}))')
            return
        item = write.name("s")
        write(f"for {item} in {items}:")
        write.indent += 1
        if isinstance(element, StructType):
            self.struct(element, item)
        else:
            self.value(field, element, item, False)
        self.flush()
        write.indent -= 1

    def tagged_fields(self, layout: Layout, value: str) -> None:
        """Write code that adds the count of fields that differ from their defaults, then (tag, size, value) each."""
        write = self.source
        self.flush()
        count, outer, section = write.name("n"), write.name("outer"), write.name("section")
        write(f"{count} = 0")
        for field in layout.tagged:
            content = write.name("v")
            write(f"{content} = {value}.{field.name}")
            write(f"if {self.differs(content, self.source.default(field))}:")
            write.indent += 1
            write(f"if not {count}: {outer}, {section} = out, []")
            write(f"{count} += 1")
            write("out = []")
            write("add = out.append")
            self.tagged_value(field, content)
            self.flush()
            write('out = b"".join(out)')
            write(f"{section} += (varint({tag_of(field)}), varint(len(out)), out)")
            write.indent -= 1
        write(f"if {count}:")
        write(f"    out = {outer}")
        write("    add = out.append")
        write(f"    add(varint({count}))")
        write(f"    out += {section}")
        write('else: add(b"\\0")')

    def tagged_value(self, field: Field, value: str) -> None:
        write = self.source
        nullable = self.version in field.nullable
        if not (nullable and isinstance(field.type, StructType)):
            self.value(field, field.type, value, nullable)
            return
        # a nullable struct in a tagged field has 0 or 1 as an unsigned varint in front
        write(f'if {value} is None: add(b"\\0")')
        write("else:")
        write.indent += 1
        write('add(b"\\x01")')
        self.nested(field.type, value, False)
        self.flush()
        write.indent -= 1


def raise_null(name: str) -> NoReturn:
    raise EncodeError(f"{name} may not be None in this version")


def raise_unsupported(message: MessageType, version: int) -> Callable[[str], NoReturn]:
    def unsupported(name: str) -> NoReturn:
        raise EncodeError(f"{message.name} v{version} has no field {name}, and it may not be dropped")

    return unsupported
