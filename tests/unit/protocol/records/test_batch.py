"""The v2 header: parsing, derived fields, iteration, checksum and patches in place."""

import pytest

from protocol.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    entry_at,
    is_transactional,
    iter_batches,
    parse_header,
    patch_timestamp,
    verify_crc,
)
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch


def batch(count: int = 3, **fields: object) -> bytes:
    builder = BatchBuilder(**fields)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(1000 + number, b"k", b"v%d" % number)
    return builder.build()


def test_header_has_61_bytes_and_every_field() -> None:
    """Producer id, epoch, sequence and the transactional bit are in the header (S8.1, S8.9, S8.10)."""
    data = batch(
        base_offset=40, codec=Codec.GZIP, producer_id=7, producer_epoch=2, base_sequence=9, transactional=True,
        leader_epoch=5,
    )  # fmt: skip
    header = parse_header(data)

    assert HEADER_SIZE == 61
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert header.size_bytes == len(data)
    assert (header.leader_epoch, header.magic, header.codec) == (5, 2, Codec.GZIP)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 9, 11)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (1000, 1002, 3)
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert header.delete_horizon is None
    assert header.attributes & 0x10


def test_last_sequence_wraps_to_zero() -> None:
    """Sequence numbers have 31 bits."""
    assert parse_header(batch(producer_id=1, producer_epoch=0, base_sequence=2147483646)).last_sequence == 0
    assert parse_header(batch()).last_sequence == -1


def test_parse_header_rejects_too_few_bytes() -> None:
    with pytest.raises(CorruptBatch):
        parse_header(batch()[:60])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_iter_batches_skips_an_incomplete_batch(kind: type) -> None:
    """Kafka's own readers ignore an incomplete batch at the end too."""
    first, second = batch(base_offset=0), batch(base_offset=3)
    data = first + second

    for cut in range(len(second)):
        assert [at for at, _ in iter_batches(kind(data[: len(data) - len(second) + cut]))] == [0]
    assert [(at, header.base_offset) for at, header in iter_batches(kind(data))] == [(0, 0), (len(first), 3)]
    assert [at for at, _ in iter_batches(kind(data), len(first))] == [len(first)]


def test_iter_batches_rejects_an_impossible_length() -> None:
    data = bytearray(batch())
    data[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="below the minimum"):
        list(iter_batches(data))


def test_iter_batches_rejects_another_magic() -> None:
    data = bytearray(batch())
    data[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        list(iter_batches(data))


def test_entry_at_reads_any_format_and_rejects_tiny_lengths() -> None:
    data = batch(base_offset=8)
    assert entry_at(data, 0) == (8, len(data), 2)
    assert entry_at(data[:-1], 0) is None
    assert entry_at(b"", 0) is None
    with pytest.raises(CorruptBatch, match="below the minimum"):
        entry_at(data[:8] + (13).to_bytes(4, "big") + data[12:], 0)


def test_first_batch_is_transactional() -> None:
    """An incomplete batch or another format is not transactional."""
    data = batch(producer_id=7, producer_epoch=2, base_sequence=9, transactional=True)
    assert is_transactional(data)
    assert is_transactional(memoryview(data + batch()))
    older = data[:16] + b"\x01" + data[17:]
    assert not any(is_transactional(each) for each in (batch(), batch() + data, data[:-1], data[:60], older, b"", None))


def test_checksum_covers_all_but_offset_epoch_and_magic() -> None:
    """A flipped bit from the attributes on is detected; base offset, leader epoch and magic are not covered."""
    data = batch()
    assert verify_crc(data, 0, len(data))
    for at in [*range(17, len(data))]:
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert not verify_crc(damaged, 0, len(data))
    assert verify_crc(b"pad" + data + b"tail", 3, len(data))


def test_patch_timestamp_sets_the_time_of_all_records() -> None:
    """LogAppendTime changes an attribute bit and the max timestamp, so the checksum is recomputed (S12)."""
    data = bytearray(batch())
    patch_timestamp(data, 0, len(data), LOG_APPEND_TIME, 5555)

    assert verify_crc(data, 0, len(data))
    assert parse_header(data).timestamp_type == LOG_APPEND_TIME
    assert {record.timestamp for record in iter_records(data)} == {5555}
    patch_timestamp(data, 0, len(data), 0, 1002)
    assert bytes(data) == batch()
