"""Bytes with names: every byte has one, and the values are those of the decoders."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from console.anatomy.batch import header_span
from console.anatomy.hex_view import hex_view
from console.anatomy.index import INDEX_KINDS, entry_span
from console.anatomy.message import message_span
from console.anatomy.record import record_spans
from console.anatomy.span import Span
from console.anatomy.stored import key_span, value_span
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.messages.coordinator import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from protocol.records.batch import HEADER_SIZE, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.errors import InvalidRecord
from protocol.records.record import iter_batch_records
from protocol.records.varint import encode_varint
from protocol.schema import Message
from tests.support.message_values import random_value

COORDINATORS = (GROUP_RECORDS, TRANSACTION_RECORDS, SHARE_STATE_RECORDS)
MESSAGES = [
    *METADATA_RECORDS.values(),
    *(message for records in COORDINATORS for pair in records.values() for message in pair),
]


def gaps(span: Span) -> Iterator[str]:
    """Return the gaps between the parts of a span."""
    for _, each in span.walk():
        at = each.start
        for part in each.parts:
            if part.start != at or part.end < part.start:
                yield f"{part.name} begins at {part.start}, not {at}"
            at = part.end
        if each.parts and at != each.end:
            yield f"{each.name} ends at {each.end}, its parts at {at}"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_each_byte_of_a_message_has_a_name(message: Message) -> None:
    """In each version. The message ends where the decoder's does."""
    random = Random(message.name)
    for version in message.versions:
        for _ in range(10):
            data = b"before" + message.encode(version, random_value(random, message, version)) + b"behind"
            _, end = message.decode(version, data, 6)

            span = message_span(message, version, data, 6)

            assert (span.start, span.end) == (6, end)
            assert list(gaps(span)) == []


def test_truncated_message_is_rejected() -> None:
    """At any byte."""
    message = METADATA_RECORDS[2]  # TopicRecord
    data = message.encode(0, message(name="orders", topic_id=bytes(range(16))))
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            message_span(message, 0, data[:size])


def test_fields_have_the_schemas_names_and_values() -> None:
    """In a record of the metadata log."""
    message = METADATA_RECORDS[2]
    data = message.encode(0, message(name="orders", topic_id=bytes(range(16))))

    found = {leaf.name: leaf.value for leaf in message_span(message, 0, data).leaves()}

    assert found["name"] == '"orders"'
    assert found["topicId"] == bytes(range(16)).hex()


def batch() -> bytes:
    builder = BatchBuilder(100, producer_id=7, producer_epoch=1, base_sequence=5)
    builder.append(1_700_000_000_000, b"k", b"value", [("trace", b"1"), ("empty", None)])
    builder.append(1_700_000_000_500, None, None)
    builder.append(1_700_000_000_900, b"", b"", offset=110)
    return builder.build()


def test_header_of_a_batch_is_explained() -> None:
    """Thirteen fields in 61 bytes, with their meaning."""
    span = header_span(batch(), crc_is_right=True)

    assert (span.start, span.end, len(span.parts)) == (0, HEADER_SIZE, 13)
    assert list(gaps(span)) == []
    assert [int(part.value) for part in span.parts] == list(parse_header(batch()))
    described = {part.name: part.meaning for part in span.parts}
    assert described["baseTimestamp"].startswith("2023-11-14 22:13:20.000 UTC")
    assert described["baseSequence"].startswith("sequences 5 to 15")
    assert described["crc"].startswith("right")
    assert header_span(batch(), crc_is_right=False).parts[4].meaning.startswith("WRONG")


def test_records_of_a_batch_are_explained() -> None:
    """Each covers its bytes and has the values of the record reader."""
    data, header = batch()[HEADER_SIZE:], parse_header(batch())

    spans = record_spans(data, header, 0, 10)

    assert [span.name for span in spans] == [f"Record {each.offset}" for each in iter_batch_records(batch())]
    assert [each for span in spans for each in gaps(span)] == []
    assert (spans[0].start, spans[-1].end) == (0, len(data))
    first = {leaf.name: leaf.value for leaf in spans[0].leaves()}
    assert (first["key"], first["value"], first["headersCount"]) == ('"k"', '"value"', "2")
    second = {part.name: part.meaning for part in spans[1].parts}
    assert (second["keyLength"], second["valueLength"]) == ("null", "null")


def test_records_from_a_number_on_are_explained() -> None:
    """Those before are skipped."""
    data, header = batch()[HEADER_SIZE:], parse_header(batch())
    all_of_them = record_spans(data, header, 0, 10)

    assert record_spans(data, header, 1, 1) == all_of_them[1:2]
    assert record_spans(data, header, 2, 10) == all_of_them[2:]
    assert record_spans(data, header, 3, 10) == []


def test_record_with_a_wrong_length_is_rejected() -> None:
    """Nothing is read beyond it."""
    data = bytearray(batch()[HEADER_SIZE:])
    data[0] -= 2
    with pytest.raises((InvalidRecord, ProtocolError)):
        record_spans(bytes(data), parse_header(batch()), 0, 1)


def test_surplus_headers_are_one_span() -> None:
    """They need no step each, and all their bytes are covered. Impossible counts are rejected."""
    builder = BatchBuilder()
    builder.append(0, None, None, [("h", None)] * 1000)
    data, header = builder.build()[HEADER_SIZE:], parse_header(builder.build())

    (span,) = record_spans(data, header, 0, 1)

    assert list(gaps(span)) == []
    assert [part.name for part in span.parts].count("Header") == 200
    rest = span.parts[-1]
    assert (rest.name, rest.kind, rest.end - rest.start) == ("Headers", "800 more", 800 * 3)
    with pytest.raises(InvalidRecord, match="has 1600 headers"):
        record_spans(data.replace(encode_varint(1000), encode_varint(1600), 1), header, 0, 1)


def test_offset_commit_is_explained_by_its_fields() -> None:
    """Key and value of a record of __consumer_offsets."""
    key_message, value_message = GROUP_RECORDS[1]
    key = b"\0\1" + key_message.encode(0, key_message(group="shop", topic="orders", partition=3))
    value = b"\0\3" + value_message.encode(3, value_message(offset=42))

    described = key_span("__consumer_offsets", key, is_control=False)
    value_part = value_span("__consumer_offsets", key, value, is_control=False)

    assert described is not None
    assert value_part is not None
    assert [*gaps(described), *gaps(value_part)] == []
    named = {leaf.name: leaf.value for leaf in described.leaves()}
    assert (named["group"], named["topic"], named["partition"]) == ('"shop"', '"orders"', "3")
    assert {leaf.name: leaf.value for leaf in value_part.leaves()}["offset"] == "42"


def test_undecodable_message_is_shown_with_the_reason() -> None:
    """All its bytes are shown too."""
    described = value_span("__consumer_offsets", b"\0\1", b"\0\3\0\xff", is_control=False)

    assert described is not None
    assert list(gaps(described)) == []
    assert described.parts[-1].name == "unread"
    assert described.parts[-1].meaning


def test_records_of_users_are_not_decoded() -> None:
    """No schema describes them."""
    assert key_span("orders", b"key", is_control=False) is None
    assert value_span("orders", b"key", b"value", is_control=False) is None


def test_index_entries_are_explained() -> None:
    """With the position that they point to."""
    kind = INDEX_KINDS["index"]
    span = entry_span(kind, b"\0\0\0\5\0\0\x10\0", 0, 0, base_offset=1000)

    assert (kind.entry_bytes, span.end) == (8, 8)
    assert span.meaning == "the batch that ends with offset 1005 begins at byte 4,096"
    assert INDEX_KINDS["timeindex"].entry_bytes == 12
    assert INDEX_KINDS["txnindex"].entry_bytes == 34


def test_rows_have_the_positions_of_the_file() -> None:
    """Every byte is shown once, under its name."""
    data, header = batch()[HEADER_SIZE:], parse_header(batch())
    spans = record_spans(data, header, 0, 10)

    view = hex_view(data, spans, offset=HEADER_SIZE)

    assert [row.position for row in view.rows] == list(range(48, HEADER_SIZE + len(data), 16))
    assert view.rows[0].columns_before == HEADER_SIZE - 48
    shown = b"".join(bytes.fromhex(run.hex) for row in view.rows for run in row.runs)
    assert shown == data
    assert sum(run.is_first for row in view.rows for run in row.runs) == sum(1 for span in spans for _ in span.leaves())
    assert not view.is_cut


def test_very_large_values_are_cut() -> None:
    view = hex_view(bytes(10_000), [Span("value", 0, 10_000, "bytes")])

    assert view.is_cut
    assert len(view.rows) == 256
