"""Pages of formats: records, message sets, indexes, small files, frames. The broker's code writes the examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from console.anatomy.batch import header_span
from console.anatomy.message import message_span
from console.anatomy.record import record_spans
from console.anatomy.span import Span
from protocol.headers import REQUEST_HEADER, RESPONSE_HEADER, encode_request_header
from protocol.messages.heartbeat import HEARTBEAT
from protocol.primitives import Primitive
from protocol.records.batch import HEADER_SIZE, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.legacy import iter_entry_records, parse_message, unwrap
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.schema import Message
from tools.site.diagrams import Tree, bytes_diagram, tree_diagram
from tools.site.layouts import LayoutField, layout_of
from tools.site.look_ups import look_ups_page
from tools.site.markdown import code, paragraphs, table
from tools.site.messages import field_rows

_EXAMPLE_TIME_MS = 1_767_225_600_000  # 2026-01-01
_WRAPPED = (1000, 20)
"""The first offset in a wrapper, and the number of messages."""
_WRAPPER = f"""
## A wrapper around {_WRAPPED[1]} messages

A codec compresses messages together: their set is the value of one message without a key, whose attributes name the
codec. (A record batch has no wrapper: its records are compressed after its header.)
"""
_WRAPPED_OFFSETS = """\
The wrapper has the offset of its last message, so that a search for an offset can skip it. In v0 the broker had to
write each inner offset, and so to compress the set again. Since v1 it changes only the wrapper's offset: the offset in
the partition = the wrapper's offset - the last inner offset + the inner offset.
"""
_CONSOLE = "The [console](../console.md) shows any batch, record and index entry of a log like this.\n"


def format_pages() -> dict[str, str]:
    """Return pages by path."""
    return {
        "reference/formats/record-batch.md": _record_batch(),
        "reference/formats/message-sets.md": _message_sets(),
        "reference/formats/indexes.md": _indexes(),
        "reference/formats/look-ups.md": look_ups_page(),
        "reference/formats/log-directory.md": _log_directory(),
        "reference/formats/frames.md": _frames(),
    }


def _record_batch() -> str:
    batch = _example_batch()
    header = parse_header(batch)
    spans = [header_span(batch, crc_is_right=True)]
    body = batch[HEADER_SIZE:]
    records = [_shifted(each, HEADER_SIZE) for each in record_spans(body, header, 0, header.record_count)]
    return "".join(
        (
            "# Record batch v2\n\nThe format of producers since Kafka 0.11, of the log, and of consumers:"
            " batches of records with one header, which the broker changes in place.\n\n## The header\n",
            bytes_diagram(layout_of("protocol.records.batch")),
            _theory("protocol.records.batch"),
            "\n## A record\n\nThe records follow the header, compressed together where the attributes name a codec.\n",
            bytes_diagram(layout_of("protocol.records.record")),
            "The last four fields are one header; there are headerCount of them. Varints are zigzag: -1 is 01.\n",
            f"\n## A batch of {len(batch)} bytes\n\nTwo records: key `17` with value `two apples`, and a tombstone of"
            " the same key with a header. Bytes are hexadecimal.\n\n",
            _bytes_table(batch, [*spans, *records]),
            "\n## Control batches\n\n",
            _theory("protocol.records.control"),
            f"\n{_CONSOLE}",
        )
    )


def _example_batch() -> bytes:
    builder = BatchBuilder(base_offset=41, leader_epoch=3)
    builder.append(_EXAMPLE_TIME_MS, b"17", b"two apples")
    builder.append(_EXAMPLE_TIME_MS + 5, b"17", None, headers=(("by", b"shop"),))
    return builder.build()


def _message_sets() -> str:
    old = layout_of("protocol.records.legacy")
    return "".join(
        (
            "# Message sets v0 and v1\n\nThe formats before record batches. The broker reads such logs and serves"
            " their clients ([why and how](../../decisions/old-formats.md)); it always writes v2.\n\n## v0\n",
            bytes_diagram([field for field in old if field.name != "timestamp"]),
            "## v1\n",
            bytes_diagram(old),
            _theory("protocol.records.legacy"),
            _wrapper(old),
        )
    )


def _wrapper(message: Sequence[LayoutField]) -> str:
    """Show a wrapper around messages, and their offsets in it and in the partition."""
    figures = []
    for magic in (0, 1):
        builder = MessageSetBuilder(magic, _WRAPPED[0], Codec.GZIP)
        for number in range(_WRAPPED[1]):
            builder.append(_EXAMPLE_TIME_MS + number, b"17", b"two apples")
        whole = builder.build()
        wrapper = parse_message(whole)
        pairs = zip(unwrap(wrapper), iter_entry_records(whole), strict=True)
        inner = [f"offset {each.offset}: record {record.offset} of the partition" for each, record in pairs]
        figures.append(
            tree_diagram(
                [
                    Tree(
                        f"v{magic}, offset {wrapper.offset}, gzip, {len(whole)} bytes",
                        [Tree(name) for name in (*inner[:2], "...", inner[-1])],
                    )
                ]
            )
        )
    fields = [field for field in message if field.name != "key"]
    held = [LayoutField("value: a message set, compressed", "") if each.name == "value" else each for each in fields]
    return "".join((_WRAPPER, bytes_diagram(held), *figures, _WRAPPED_OFFSETS))


def _indexes() -> str:
    parts = [
        "# Indexes and snapshots\n\nThe files beside a segment. All numbers are big-endian."
        " How they are searched: [how a record is found](look-ups.md).\n"
    ]
    for title, module in (
        ("Offset index", "storage.index.offset"),
        ("Time index", "storage.index.time"),
        ("Transaction index", "storage.index.transaction"),
    ):
        parts += (f"\n## {title}\n", bytes_diagram(layout_of(module)), _theory(module))
    snapshot = "storage.producers.snapshot"
    parts += (
        "\n## Producer snapshot\n",
        bytes_diagram(layout_of(snapshot)),
        "An entry:\n",
        bytes_diagram(layout_of(snapshot, 1)),
        _theory(snapshot),
        f"\n{_CONSOLE}",
    )
    return "".join(parts)


def _log_directory() -> str:
    readme = (Path(__file__).parents[2] / "storage/README.md").read_text()
    section = readme[readme.index("## On the disk") :].partition("\n## ")[0]
    drawn, _, explanation = section.removeprefix("## On the disk").strip().partition("\n\n")
    return "".join(
        (
            "# Log directory\n\nThe contents of each directory in `log.dirs`.\n\n",
            code(re.sub(r"^ {4}", "", drawn, flags=re.MULTILINE)),
            f"\n{explanation}\n",
            "\n## Names of partitions' directories\n\n",
            code((_docstring("storage.directory_names")).partition("\n\n")[2]),
            "\nHow the index files look: [indexes and snapshots](indexes.md).\n",
        )
    )


def _frames() -> str:
    frame = encode_request_header(HEARTBEAT, 4, 7, "shop-1")
    body = HEARTBEAT.request.encode(4, HEARTBEAT.request(group_id="shop", generation_id=3, member_id="shop-1-x"))
    whole = (len(frame) + len(body)).to_bytes(4, "big") + frame + body
    header = message_span(REQUEST_HEADER, 2, whole, 4)
    size = Span("size", 0, 4, "int32", str(len(whole) - 4), "bytes after this field")
    parts = [
        "# Request frames\n\nEach request and each response on a connection is a frame: its size, a header, a body."
        " Responses have the order of the requests.\n\n",
        bytes_diagram([LayoutField("size", "int32"), LayoutField("header", ""), LayoutField("body", "")]),
        _theory("protocol.headers"),
    ]
    for message, title in ((REQUEST_HEADER, "Request header"), (RESPONSE_HEADER, "Response header")):
        for version in message.versions:
            parts += (f"\n## {title} v{version}\n", bytes_diagram(_layout(message, version)))
    parts += (
        "\n## Types in bodies\n\n",
        table(("type", "in versions that are not flexible", "in flexible versions"), _TYPES),
        "\n[Each API's page](../../generated/apis.md) lists its flexible versions.\n",
        f"\n## A Heartbeat of {len(whole)} bytes\n\nVersion 4, which is flexible, of the member `shop-1-x`.\n\n",
        _bytes_table(whole, [size, header, message_span(HEARTBEAT.request, 4, whole, header.end)]),
        "\nThe fields of its body:\n\n",
        table(("field", "type", "versions", "null in", "tag", "default"), field_rows(HEARTBEAT.request)),
    )
    return "".join(parts)


_TYPES = (
    ("`bool`, `int8` to `int64`, `float64`", "big-endian", "the same"),
    ("`uuid`", "16 bytes", "the same"),
    ("`string`", "length int16, UTF-8; -1 null", "length + 1 as varint, UTF-8; 0 null"),
    ("`bytes`, `records`", "length int32, bytes; -1 null", "length + 1 as varint, bytes; 0 null"),
    ("`[]type`", "count int32, elements; -1 null", "count + 1 as varint, elements; 0 null"),
    ("a struct", "its fields", "its fields, then tagged fields: their count, and number, size and bytes of each"),
)


def _layout(message: Message, version: int) -> list[LayoutField]:
    fields = []
    for field in message.fields:
        if version in field.versions and isinstance(field.type, Primitive):
            fields.append(LayoutField(field.name, field.type.name))
    if version in message.flexible:
        fields.append(LayoutField("tagged fields", "varint ..."))
    return fields


def _bytes_table(data: bytes, spans: Iterable[Span]) -> str:
    rows = []
    for span in spans:
        rows.append((f"**{span.start}**", "", f"**{span.name}**", "", "", ""))
        rows += (
            (
                str(leaf.start),
                f"`{data[leaf.start : leaf.end].hex(' ')}`",
                leaf.name,
                leaf.kind,
                leaf.value,
                leaf.meaning,
            )
            for leaf in span.leaves()
            if leaf.end > leaf.start
        )
    return table(("byte", "bytes", "field", "type", "value", "meaning"), rows)


def _shifted(span: Span, by: int) -> Span:
    """Return the span, moved by so many bytes."""
    parts = tuple(_shifted(part, by) for part in span.parts)
    return Span(span.name, span.start + by, span.end + by, span.kind, span.value, span.meaning, parts)


def _docstring(module: str) -> str:
    from importlib import import_module

    return (import_module(module).__doc__ or "").strip()


def _theory(module: str) -> str:
    """Return the docstring of a module as text, without the layouts, which are drawn."""
    blocks = paragraphs(_docstring(module)).split("\n\n")
    return "\n\n".join(block for block in blocks if "```" not in block and " | " not in block).strip() + "\n"
