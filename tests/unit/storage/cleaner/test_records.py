"""Rewriting a batch gives the same result as encoding whole records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import DELETE_HORIZON_BIT, BatchHeader, encode_batch, parse_header, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec, compress
from protocol.records.record import Record, encode_record, iter_batch_records
from storage.cleaner.keys import DROP, KEEP
from storage.cleaner.record_keys import read_keys, uncompressed
from storage.cleaner.records import emptied, rewrite

BASE, T0 = 1000, 1_700_000_000_000

entries = st.lists(
    st.tuples(
        st.integers(0, 300),  # number of missing offsets before it
        st.integers(-(1 << 40), 1 << 40),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.one_of(st.none(), st.binary(max_size=300)),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=80,
)


def build(found: list[tuple], codec: Codec = Codec.NONE, **header: int | None) -> bytes:  # type: ignore[type-arg]
    builder = BatchBuilder(BASE, codec, **header)  # type: ignore[arg-type]
    offset = BASE - 1
    for gap, time, key, value, with_header, _ in found:
        offset += 1 + gap
        builder.append(T0 + time, key, value, (("h", b"v"),) if with_header else (), offset=offset)
    return builder.build()


def with_records(header: BatchHeader, records: list[Record], horizon: int | None) -> bytes:
    """Return a batch with this header, these records and a delete horizon."""
    base = records[0].timestamp if horizon is None else horizon
    encoded = [
        encode_record(record.offset - BASE, record.timestamp - base, record.key, record.value, record.headers)
        for record in records
    ]
    rewritten = header._replace(
        attributes=header.attributes | (0 if horizon is None else DELETE_HORIZON_BIT),
        base_timestamp=base,
        max_timestamp=max(record.timestamp for record in records),
        record_count=len(records),
    )
    return encode_batch(rewritten, compress(header.codec, b"".join(encoded)))


@given(entries, st.sampled_from([Codec.NONE, Codec.LZ4]), st.sampled_from([None, T0 + 7]))
def test_rewritten_batch_has_the_records_that_were_kept(
    found: list[tuple],  # type: ignore[type-arg]
    codec: Codec,
    horizon: int | None,
) -> None:
    """Byte for byte the encoding of whole records: the base timestamp is that of the first record, or the horizon
    (KIP-534).
    """
    batch = memoryview(build(found, codec, producer_id=4, producer_epoch=1, base_sequence=9))
    header = parse_header(batch)
    data = uncompressed(batch, header)
    records = list(iter_batch_records(batch, header))
    keys = read_keys(data, header)
    assert keys.keys == [record.key for record in records]
    assert list(keys.offsets) == [record.offset for record in records]
    assert keys.tombstones == [number for number, record in enumerate(records) if record.value is None]

    marks = bytes(KEEP if keep else DROP for *_, keep in found)
    if KEEP not in marks:
        return
    kept = [record for record, mark in zip(records, marks, strict=True) if mark != DROP]
    rewritten = rewrite(data, header, marks, horizon)
    assert rewritten == with_records(header, kept, horizon)
    assert verify_crc(rewritten, 0, len(rewritten))


@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.sampled_from([40, 80, 9000]), st.integers(-3, 3)), min_size=1, max_size=3
    ),
    st.integers(1, 20),
    st.integers(0, 19),
)
def test_rewritten_batch_of_uniform_records(runs: list[tuple[int, int, int]], step: int, first: int) -> None:
    """The starts of uniform records are computed together; their timestamps are close to each other."""
    found: list[tuple] = []  # type: ignore[type-arg]
    for count, size, ms in runs:
        found += [(0, ms * number, b"key", bytes(size), False, False) for number in range(count)]
    if len(found) <= first:
        return
    batch = memoryview(build(found))
    header = parse_header(batch)
    marks = bytearray([DROP]) * len(found)
    marks[first::step] = bytes(len(marks[first::step]))
    kept = list(iter_batch_records(batch, header))[first::step]
    assert rewrite(uncompressed(batch, header), header, marks, None) == with_records(header, kept, None)


def test_emptied_batch_keeps_its_header_fields() -> None:
    """As in Apache Kafka: producer, sequence, offsets and largest timestamp are kept; codec and horizon are not."""
    batch = BatchBuilder(5, Codec.GZIP, producer_id=4, producer_epoch=1, base_sequence=9)
    batch.append(T0, b"k", None)
    batch.append(T0 + 3, b"k", None)
    before = parse_header(batch.build())
    data = emptied(before._replace(attributes=before.attributes | DELETE_HORIZON_BIT))
    after = parse_header(data)
    assert len(data) == 61
    assert verify_crc(data, 0, 61)
    assert after.last_sequence == before.last_sequence == 10
    changed = {"batch_length": 49, "crc": after.crc, "attributes": 0, "base_timestamp": -1, "record_count": 0}
    assert after == before._replace(**changed)
