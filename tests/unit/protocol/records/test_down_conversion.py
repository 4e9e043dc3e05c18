"""Record batches and messages v1 converted to older formats, compared with Apache Kafka 3.9."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.control import build_end_transaction_marker
from protocol.records.down_conversion import CUT_OFF_MESSAGE, convert_down
from protocol.records.entries import iter_records
from protocol.records.errors import InvalidRecord, UnsupportedCodec
from protocol.records.legacy import parse_message
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import Record
from tests.support.batch_values import patch_in_place
from tests.support.dump_log import LOGS
from tests.support.scale import scaled

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
T0 = 1_700_000_000_000


def batch(*values: bytes, base_offset: int = 0, codec: int = 0, **of: object) -> bytes:
    builder = BatchBuilder(base_offset, codec, **of)
    for number, value in enumerate(values):
        builder.append(T0 + number, b"key", value, [("header", b"x")])
    return builder.build()


def recorded(topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((LOGS / "v3.9.1-old-formats" / f"{topic}-0").glob("*.log")))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_converted_batches_equal_those_of_kafka(magic: int, codec: Codec) -> None:
    """One producer wrote to topics of all three formats, and Kafka converted for the older two."""
    name = codec.name.lower()
    converted = convert_down(recorded(f"v2-{name}"), magic, 0).records
    expected = recorded(f"v{magic}-{name}")

    found = list(iter_records(converted))
    assert len(found) > 30
    assert found == list(iter_records(expected))[: len(found)]
    if codec is Codec.NONE:
        assert converted == expected[: len(converted)]


ROWS = st.lists(
    st.tuples(st.integers(0, 1 << 45), st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=scaled(60))
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]), st.integers(0, 9))
def test_records_keep_offset_time_key_and_value(
    batches: list[list[tuple[int, bytes | None, bytes | None]]], codec: Codec, magic: int, base_offset: int
) -> None:
    """As many batches as fit, but at least the first; a further call returns the rest."""
    data, expected, offset = b"", [], base_offset
    for rows in batches:
        builder = BatchBuilder(offset, codec)
        for timestamp, key, value in rows:
            builder.append(timestamp, key, value, [("h", b"left out")])
            expected.append(Record(offset, timestamp if magic else -1, key, value))
            offset += 1
        data += builder.build()

    found: list[Record] = []
    while len(found) < len(expected):
        at = base_offset + len(found)
        part = convert_down(data, magic, at)
        found += [record for record in iter_records(part.records) if record.offset >= at]
        assert part.next_offset == base_offset + len(found)
        data = data[sum(len(each) for each in _entries(data) if _end(each) <= part.next_offset) :]
    assert found == expected


def _entries(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        found.append(data[:size])
        data = data[size:]
    return found


def _end(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "big") + int.from_bytes(entry[23:27], "big") + 1


def test_log_append_time_applies_to_every_message() -> None:
    """In v1 with the timestamp type bit, also inside a wrapper; v0 has no timestamps."""
    for codec in (Codec.NONE, Codec.GZIP):
        converted = convert_down(batch(b"a", b"b", codec=codec, log_append_time_ms=T0 + 99), 1, 0).records

        assert [record.timestamp for record in iter_records(converted)] == [T0 + 99] * 2
        assert parse_message(converted).is_log_append_time
    assert not parse_message(convert_down(batch(b"a", log_append_time_ms=T0), 0, 0).records).is_log_append_time


def test_messages_below_the_first_offset_are_dropped() -> None:
    """Some consumers expect the requested offset in the first message; wrappers stay whole."""
    plain = convert_down(batch(b"a", b"b", b"c", base_offset=5), 1, 6)
    assert [record.offset for record in iter_records(plain.records)] == [6, 7]

    wrapped = convert_down(batch(b"a", b"b", b"c", base_offset=5, codec=Codec.GZIP), 1, 6)
    assert [record.offset for record in iter_records(wrapped.records)] == [5, 6, 7]


def test_control_batches_are_dropped_and_skipped() -> None:
    """The next offset skips them; aborted records are records for such consumers."""
    marker = bytearray(build_end_transaction_marker(7, 0, commit=False, coordinator_epoch=0, timestamp_ms=T0))
    patch_in_place(marker, 0, 1, 0)
    data = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True) + bytes(marker)

    assert [record.value for record in iter_records(convert_down(data, 1, 0).records)] == [b"a"]
    assert convert_down(marker, 1, 1) == (b"", 2)


def test_older_messages_are_unchanged() -> None:
    """Byte for byte; v1 is converted for consumers of v0."""
    builder = MessageSetBuilder(1, 3, Codec.SNAPPY)
    for value in (b"a", b"b"):
        builder.append(T0, None, value)
    messages = builder.build()

    assert convert_down(messages, 1, 0).records == messages
    older = convert_down(messages, 0, 0).records
    assert [(record.offset, record.timestamp) for record in iter_records(older)] == [(3, -1), (4, -1)]
    assert convert_down(older, 1, 0).records == older


def test_zstd_cannot_be_converted() -> None:
    """An error if it is the first batch, else the batches before it are returned (KIP-110)."""
    compressed = batch(b"b" * 100, base_offset=1, codec=Codec.ZSTD)

    with pytest.raises(UnsupportedCodec):
        convert_down(compressed, 1, 1)
    found = convert_down(batch(b"a") + compressed, 1, 0)
    assert [record.value for record in iter_records(found.records)] == [b"a"]
    assert found.next_offset == 1


def test_invalid_batch_is_an_error_only_if_it_is_first() -> None:
    """Header validation accepts a batch whose records contradict it (rule R5 of storage)."""
    lying = bytearray(batch(b"a", b"b", base_offset=1))
    lying[57:61] = (3).to_bytes(4, "big")

    with pytest.raises(InvalidRecord):
        convert_down(lying, 1, 1)
    assert convert_down(batch(b"a") + lying, 1, 0).next_offset == 1


def test_first_batch_is_whole_and_others_must_fit() -> None:
    """The limit is the size of the input, because messages are larger than records; an incomplete batch is ignored.

    Of later batches as many messages are returned as fit; wrappers are returned whole or not at all.
    """
    first, second = batch(*[b"v"] * 50), batch(b"w", base_offset=50)

    converted = convert_down(first + second, 1, 0)
    assert len(converted.records) > len(first + second)
    assert converted.next_offset == 50
    assert convert_down(first + second[:-1], 1, 0).next_offset == 50
    single, many = batch(b"v" * 200), batch(*[b"w"] * 20, base_offset=1)
    found = convert_down(single + many, 1, 0)
    assert len(found.records) <= len(single + many)
    assert 5 < found.next_offset < 20
    assert [record.offset for record in iter_records(found.records)] == list(range(found.next_offset))
    wrapped = batch(*[b"w"] * 500, base_offset=1, codec=Codec.GZIP)
    assert convert_down(single + wrapped, 1, 0).next_offset == 1
    assert convert_down(first[:-1], 1, 0) == (b"", 0)


def test_cut_off_message_is_incomplete() -> None:
    assert list(iter_records(CUT_OFF_MESSAGE)) == []
