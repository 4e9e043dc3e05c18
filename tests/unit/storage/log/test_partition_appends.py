"""Appends to a partition's log: offsets, rejections, fields that the broker sets, rolls."""

from pathlib import Path

import pytest

from protocol.records.batch import TIMESTAMP_TYPE_BIT, compute_crc, parse_header, verify_crc
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from storage.append.header_validation import AppendOrigin
from storage.errors import (
    InvalidProducerEpoch,
    InvalidRecords,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    UnexpectedAppendOffset,
)
from storage.log_config import LogConfig
from tests.support.logs import (
    T0,
    append,
    batch,
    bytes_of,
    close,
    crash,
    end,
    idempotent,
    marker,
    open_log,
    read_all,
    sized,
)

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


# -- append ----------------------------------------------------------------------------------------------------------


def test_append_assigns_the_next_offsets(tmp_path: Path) -> None:
    """Each batch gets the offsets after the previous one."""
    log = open_log(tmp_path)
    first = log.append(batch(b"a", b"b"), leader_epoch=4, now_ms=T0)
    second = log.append(batch(b"c"), leader_epoch=4, now_ms=T0)
    assert first == (0, 1, T0 + 1, -1, 0, False, False)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (3, 3, 3)
    assert [(record.offset, record.value) for record in read_all(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    header = parse_header(bytes_of(log.read(2, 1000, 3)))
    assert (header.base_offset, header.leader_epoch) == (2, 4)


def test_only_writable_records_are_patched_in_place(tmp_path: Path) -> None:
    """The client's bytes are not copied, because the checksum covers neither field."""
    log = open_log(tmp_path)
    append(log, batch())
    writable, frozen = batch(b"x"), bytes(batch(b"y"))
    append(log, writable)
    assert parse_header(writable).base_offset == 1
    assert verify_crc(writable, 0, len(writable))
    append(log, frozen)
    append(log, memoryview(frozen))  # type: ignore[arg-type]
    assert parse_header(frozen).base_offset == 0
    assert [record.value for record in read_all(log)] == [b"value", b"x", b"y", b"y"]


def test_trailing_bytes_are_not_written(tmp_path: Path) -> None:
    """Bytes of an incomplete entry after the batch are dropped."""
    log = open_log(tmp_path)
    append(log, batch(b"a") + bytes(9))
    append(log, batch(b"b"))
    assert [record.value for record in read_all(log)] == [b"a", b"b"]


def test_rejected_append_changes_nothing(tmp_path: Path) -> None:
    """Rule W2."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    append(log, idempotent(0))
    before = (log.log_end_offset, log.size_bytes, len(log.segments), sorted(Path(log.path).iterdir()))
    for records, error in [
        (batch()[:-1], InvalidRecords),
        (idempotent(5), OutOfOrderSequence),
        (idempotent(5, epoch=-1), InvalidProducerEpoch),
        (batch(bytes(300)), RecordBatchTooLarge),
    ]:
        with pytest.raises(error):
            append(log, records)
    assert before == (log.log_end_offset, log.size_bytes, len(log.segments), sorted(Path(log.path).iterdir()))


def test_repeated_batch_gets_its_offsets_and_is_not_written(tmp_path: Path) -> None:
    """S19.2."""
    log = open_log(tmp_path)
    append(log, batch())
    for sequence in range(0, 10, 2):
        append(log, idempotent(sequence, 2))
    size = log.size_bytes
    result = log.append(idempotent(2, 2), leader_epoch=0, now_ms=T0 + 9)
    assert result == (3, 4, T0 + 1, T0 + 1, 0, True, False)
    assert (log.size_bytes, log.log_end_offset) == (size, 11)


@pytest.mark.parametrize("clean", [True, False])
def test_last_five_batches_are_known_after_a_restart(clean: bool, tmp_path: Path) -> None:
    """A snapshot has one batch per producer; the others are searched in the log when a client repeats them."""
    config = LogConfig(segment_bytes=400, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    for sequence in range(8):
        append(log, idempotent(sequence))
        append(log, batch(b"between"))
    close(log) if clean else crash(log)
    log = open_log(tmp_path, config, clean=clean)
    for sequence in (7, 3, 5, 4, 6):
        result = log.append(idempotent(sequence), leader_epoch=0, now_ms=T0)
        assert (result.duplicate, result.base_offset) == (True, 2 * sequence)
    with pytest.raises(OutOfOrderSequence):
        append(log, idempotent(2))
    assert append(log, idempotent(8)) == 16


def test_flush_is_due_by_flush_messages(tmp_path: Path) -> None:
    """S16.2."""
    log = open_log(tmp_path, LogConfig(flush_messages=3))
    due = [log.append(batch(), leader_epoch=0, now_ms=T0).must_wait for _ in range(4)]
    assert due == [False, False, True, True]
    log.recovery_point = 4
    assert not log.append(batch(), leader_epoch=0, now_ms=T0).must_wait


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_is_the_brokers(writable: bool, codec: Codec, tmp_path: Path) -> None:
    """S12.2, S12.3: type and largest timestamp of the batch, with a new checksum; the response has the time."""
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    records = batch(b"a", b"b", timestamp=5, codec=codec)
    result = log.append(records if writable else bytes(records), leader_epoch=0, now_ms=T0 + 77)
    assert (result.log_append_time_ms, result.max_timestamp) == (T0 + 77, T0 + 77)
    stored = bytes_of(log.read(0, 1000, 2))
    assert verify_crc(stored, 0, len(stored))
    assert {record.timestamp for record in iter_records(stored)} == {T0 + 77}


def test_log_append_time_bit_of_a_client_is_cleared(tmp_path: Path) -> None:
    """decisions.md, The hot path, 2."""
    log = open_log(tmp_path)
    records = batch()
    records[22] |= TIMESTAMP_TYPE_BIT
    records[17:21] = compute_crc(records, 0, len(records)).to_bytes(4, "big")
    append(log, records)
    stored = bytes_of(log.read(0, 1000, 1))
    assert parse_header(stored).timestamp_type == 0
    assert verify_crc(stored, 0, len(stored))


def test_topic_compression_type_applies(tmp_path: Path) -> None:
    """S9.3, S9.5: the value may change while the log is in use."""
    log = open_log(tmp_path, LogConfig(compression_type="zstd"))
    append(log, batch(b"a", b"b"))
    log.config = LogConfig(compression_type="uncompressed")
    append(log, batch(b"c", codec=Codec.LZ4))
    log.config = LogConfig()
    append(log, batch(b"d", codec=Codec.GZIP))
    codecs = [parse_header(bytes_of(log.read(offset, 1, 4))).codec for offset in (0, 2, 3)]
    assert codecs == [Codec.ZSTD, Codec.NONE, Codec.GZIP]
    assert [record.value for record in read_all(log)] == [b"a", b"b", b"c", b"d"]


def test_compacted_topic_rejects_records_without_keys(tmp_path: Path) -> None:
    """S15: batches of the broker itself are not checked."""
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(InvalidRecords):
        append(log, batch())
    assert append(log, batch(key=b"k")) == 0
    assert append(log, batch(), origin=AppendOrigin.COORDINATOR) == 1


def test_replicated_batches_keep_offsets_and_epochs(tmp_path: Path) -> None:
    """Gaps are kept too."""
    source = open_log(tmp_path / "source")
    append(source, batch(b"a", b"b"), leader_epoch=3)
    append(source, idempotent(0), leader_epoch=5)
    end(source, commit=True, leader_epoch=5)
    copy = open_log(tmp_path / "copy")
    data = bytes_of(source.read(0, 10_000, 4))
    for offset in (0, 2, 3):
        copy.append_replicated(memoryview(bytes_of(source.read(offset, 1, 4))), now_ms=T0)
    assert bytes_of(copy.read(0, 10_000, 4)) == data
    assert copy.leader_epochs.entries == source.leader_epochs.entries == ((3, 0), (5, 2))
    assert copy.producer_state.producers[7].last_sequence == 0
    with pytest.raises(UnexpectedAppendOffset):
        copy.append_replicated(memoryview(bytes_of(source.read(3, 1, 4))), now_ms=T0)
    later = batch(b"later")
    later[0:8] = (100).to_bytes(8, "big")
    copy.append_replicated(memoryview(later), now_ms=T0)
    assert copy.log_end_offset == 101


# -- rolls -----------------------------------------------------------------------------------------------------------


def test_segments_are_named_after_their_first_offset(tmp_path: Path) -> None:
    """S3.3, S3.9, S3.10, S14.18: closed segments are close to the limit, never above it."""
    log = open_log(tmp_path, SMALL)
    for _ in range(20):
        append(log, sized(120))
    assert log.segments.base_offsets == [0, 4, 8, 12, 16]
    for segment in log.segments:
        assert segment.size_bytes == 480
        first = next(segment.scan(0))
        assert first.base_offset == segment.base_offset
    assert [record.offset for record in read_all(log)] == list(range(20))


def test_control_batch_rolls_by_its_wall_clock_time(tmp_path: Path) -> None:
    """segment.ms is between old record timestamps and a marker with the current time."""
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, idempotent(0, transactional=True, timestamp=T0 - 5000))
    append(log, marker(commit=True), origin=AppendOrigin.COORDINATOR)
    assert log.segments.base_offsets == [0, 1]


def test_rolls_before_sequences_are_checked(tmp_path: Path) -> None:
    """A repeated or out-of-order batch creates a segment if the active one has no room for it."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    first = bytes(idempotent(0))
    for sequence in range(2):
        append(log, idempotent(sequence))
    assert append(log, bytearray(first)) == 0
    assert log.segments.base_offsets == [0, 2]
    append(log, idempotent(2))
    append(log, idempotent(3))
    with pytest.raises(OutOfOrderSequence):
        append(log, idempotent(9))
    with pytest.raises(InvalidProducerEpoch):
        append(log, idempotent(4, epoch=-1))
    assert log.segments.base_offsets == [0, 2, 4]
    assert log.log_end_offset == 4


def test_index_interval_of_a_segment_is_fixed(tmp_path: Path) -> None:
    """A new value applies to later segments."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=4096))
    append(log, sized(100))
    log.config = LogConfig(index_interval_bytes=0)
    append(log, sized(100))
    assert log.active_segment.offset_index.entries == 0
    log.roll(2, T0)
    append(log, sized(100))
    append(log, sized(100))
    assert log.active_segment.offset_index.entries == 1


def test_snapshot_is_taken_on_roll_and_on_close(tmp_path: Path) -> None:
    """At the base offset of the new segment, and at the end."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for sequence in range(6):
        append(log, idempotent(sequence))
    close(log)
    names = sorted(path.stem for path in Path(log.path).glob("*.snapshot"))
    assert [int(name) for name in names] == [*log.segments.base_offsets[1:], 6]
