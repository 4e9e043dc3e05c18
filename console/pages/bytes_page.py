"""Bytes with their names: entries of an index, a batch, a record."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from console.anatomy.batch import header_span
from console.anatomy.hex_view import HexView, hex_view
from console.anatomy.index import INDEX_KINDS, entry_span
from console.anatomy.record import record_spans
from console.anatomy.span import Span
from console.anatomy.stored import key_span, value_span
from console.errors import NotFound
from console.logs.batches import WholeBatch, codec_name, read_batch
from console.logs.index_entries import read_index
from console.pages.page import number, page
from console.pages.storage import chosen_segment
from console.payload import Payload, payload

_ENTRIES = 64
_RECORDS = 50


def show_index(request: Request) -> Response:
    """GET /storage/{directory}/{folder}/{base}/{suffix}?first=: entries of an index"""
    directory, folder, segment = chosen_segment(request)
    suffix: str = request.path_params["suffix"]
    kind = INDEX_KINDS.get(suffix)
    if kind is None:
        raise NotFound("There is no such page")
    index = read_index(segment, suffix, kind)
    first = min(number(request, "first", 0), max(index.count - 1, 0))
    numbers = range(first, min(first + _ENTRIES, index.count))
    width = kind.entry_bytes
    spans = [entry_span(kind, index.data, each * width, each, segment.base_offset) for each in numbers]
    return page(
        request,
        "index.html",
        directory=directory,
        folder=folder,
        segment=segment,
        suffix=suffix,
        kind=kind,
        index=index,
        view=hex_view(index.data, spans),
        first=first,
        previous=max(0, first - _ENTRIES) if first else None,
        following=numbers.stop if numbers.stop < index.count else None,
    )


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record in the table of its batch; `number` counts from 0, the batch's first."""

    number: int
    span: Span
    fields: dict[str, Span]


def show_batch(request: Request) -> Response:
    """GET /storage/{directory}/{folder}/{base}/batch/{position}?first=: a header, and records from number `first`"""
    directory, folder, segment = chosen_segment(request)
    batch = read_batch(segment, request.path_params["position"])
    first = number(request, "first", 0)
    spans = record_spans(batch.records, batch.header, first, _RECORDS)
    following = first + len(spans)
    return page(
        request,
        "batch.html",
        directory=directory,
        folder=folder,
        segment=segment,
        batch=batch,
        codec=codec_name(batch.header.codec),
        view=_header_view(batch),
        records=[RecordLine(first + at, span, _by_name(span)) for at, span in enumerate(spans)],
        previous=max(0, first - _RECORDS) if first else None,
        following=following if following < batch.header.record_count else None,
    )


def _header_view(batch: WholeBatch) -> HexView:
    span = header_span(batch.data, crc_is_right=batch.crc_is_right)
    return hex_view(batch.data, [span], offset=batch.position)


def _by_name(record: Span) -> dict[str, Span]:
    return {part.name: part for part in record.parts}


def show_record(request: Request) -> Response:
    """GET /storage/{directory}/{folder}/{base}/batch/{position}/record/{number}: all bytes of a record"""
    directory, folder, segment = chosen_segment(request)
    batch = read_batch(segment, request.path_params["position"])
    wanted: int = request.path_params["number"]
    spans = record_spans(batch.records, batch.header, wanted, 1)
    if not spans:
        raise NotFound(f"the batch has {batch.header.record_count} records: number {wanted} does not exist")
    (span,) = spans
    contents = _contents(batch, _by_name(span), folder.topic)
    return page(
        request,
        "record.html",
        directory=directory,
        folder=folder,
        segment=segment,
        batch=batch,
        number=wanted,
        span=span,
        view=hex_view(batch.records, spans, offset=batch.records_position or 0),
        contents=contents,
        previous=wanted - 1 if wanted else None,
        following=wanted + 1 if wanted + 1 < batch.header.record_count else None,
    )


@dataclass(frozen=True, slots=True)
class Content:
    """A record's key or value: by the schema of an internal topic, or in the most likely form."""

    name: str
    payload: Payload
    view: HexView | None


def _contents(batch: WholeBatch, fields: dict[str, Span], topic: str) -> list[Content]:
    key, value = (_bytes(batch, fields, name) for name in ("key", "value"))
    is_control = batch.header.is_control
    anatomies = {
        "key": key_span(topic, key, is_control=is_control) if key else None,
        "value": value_span(topic, key or b"", value, is_control=is_control) if value else None,
    }
    return [
        Content(
            name, payload(data), hex_view(data, [span], prefix=name) if data and (span := anatomies[name]) else None
        )
        for name, data in (("key", key), ("value", value))
    ]


def _bytes(batch: WholeBatch, fields: dict[str, Span], name: str) -> bytes | None:
    """Return the field's bytes; None for null. Empty fields have no span, either."""
    if name in fields:
        return batch.records[fields[name].start : fields[name].end]
    return None if fields[f"{name}Length"].value == "-1" else b""
