"""A partition's log: appends, reads, offsets, epochs, time."""

from pathlib import Path

import pytest

from protocol.records.batch import TIMESTAMP_TYPE_BIT, compute_crc, parse_header, verify_crc
from protocol.records.compression import Codec
from protocol.records.record import iter_records
from storage.append_rules import AppendOrigin
from storage.errors import (
    InvalidProducerEpoch,
    InvalidRecords,
    LogOffline,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    TransactionCoordinatorFenced,
    UnexpectedAppendOffset,
)
from storage.fetch_slice import FetchSlice
from storage.log_config import LogConfig
from tests.support.logs import (
    T0,
    append,
    batch,
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


def bytes_of(part: FetchSlice | bytes) -> bytes:
    return part if isinstance(part, bytes) else part.read()


# -- append ----------------------------------------------------------------------------------------------------------


def test_append_gives_the_next_offsets(tmp_path: Path) -> None:
    """One batch after the other."""
    log = open_log(tmp_path)
    first = log.append(batch(b"a", b"b"), leader_epoch=4, now_ms=T0)
    second = log.append(batch(b"c"), leader_epoch=4, now_ms=T0)
    assert first == (0, 1, T0 + 1, -1, 0, False, False)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (3, 3, 3)
    assert [(record.offset, record.value) for record in read_all(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    header = parse_header(bytes_of(log.read(2, 1000, 3)))
    assert (header.base_offset, header.leader_epoch) == (2, 4)


def test_writable_records_are_patched_in_place_and_others_left_alone(tmp_path: Path) -> None:
    """No copy of what the client sent; the checksum covers neither field."""
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
    """What is no whole entry behind the batch is dropped."""
    log = open_log(tmp_path)
    append(log, batch(b"a") + bytes(9))
    append(log, batch(b"b"))
    assert [record.value for record in read_all(log)] == [b"a", b"b"]


def test_refused_append_changes_nothing(tmp_path: Path) -> None:
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


def test_repeated_batch_is_answered_with_its_offsets_and_not_written(tmp_path: Path) -> None:
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
    """A snapshot keeps one batch a producer; the others are found in the log when a client sends them again."""
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
    due = [log.append(batch(), leader_epoch=0, now_ms=T0).flush_due for _ in range(4)]
    assert due == [False, False, True, True]
    log.recovery_point = 4
    assert not log.append(batch(), leader_epoch=0, now_ms=T0).flush_due


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_is_the_brokers(writable: bool, codec: Codec, tmp_path: Path) -> None:
    """S12.2, S12.3: type and largest timestamp of the batch, with a new checksum; the answer tells the time."""
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


def test_compression_type_of_the_topic_counts(tmp_path: Path) -> None:
    """S9.3; and it may change while the log is in use."""
    log = open_log(tmp_path, LogConfig(compression_type="zstd"))
    append(log, batch(b"a", b"b"))
    log.config = LogConfig(compression_type="uncompressed")
    append(log, batch(b"c", codec=Codec.LZ4))
    log.config = LogConfig()
    append(log, batch(b"d", codec=Codec.GZIP))
    codecs = [parse_header(bytes_of(log.read(offset, 1, 4))).codec for offset in (0, 2, 3)]
    assert codecs == [Codec.ZSTD, Codec.NONE, Codec.GZIP]
    assert [record.value for record in read_all(log)] == [b"a", b"b", b"c", b"d"]


def test_compacted_topic_refuses_records_without_keys(tmp_path: Path) -> None:
    """S15: the broker's own batches are not asked."""
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(InvalidRecords):
        append(log, batch())
    assert append(log, batch(key=b"k")) == 0
    assert append(log, batch(), origin=AppendOrigin.COORDINATOR) == 1


def test_replicated_batches_keep_their_offsets_and_epochs(tmp_path: Path) -> None:
    """Of a leader's log, gaps too."""
    leader = open_log(tmp_path / "leader")
    append(leader, batch(b"a", b"b"), leader_epoch=3)
    append(leader, idempotent(0), leader_epoch=5)
    end(leader, commit=True, leader_epoch=5)
    follower = open_log(tmp_path / "follower")
    data = bytes_of(leader.read(0, 10_000, 4))
    follower.append_replicated(data, now_ms=T0)
    assert bytes_of(follower.read(0, 10_000, 4)) == data
    assert follower.leader_epochs.entries == leader.leader_epochs.entries == ((3, 0), (5, 2))
    assert follower.producer_state.producers[7].last_sequence == 0
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_replicated(data, now_ms=T0)
    later = batch(b"later")
    later[0:8] = (100).to_bytes(8, "big")
    follower.append_replicated(later, now_ms=T0)
    assert follower.log_end_offset == 101


# -- rolls -----------------------------------------------------------------------------------------------------------


def test_segments_are_named_after_their_first_offset(tmp_path: Path) -> None:
    """S3.3, S3.9, S3.10, S14.18: closed ones are close to the limit, never above."""
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
    """Old record timestamps and a marker of today: segment.ms between them."""
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, idempotent(0, transactional=True, timestamp=T0 - 5000))
    append(log, marker(commit=True), origin=AppendOrigin.COORDINATOR)
    assert log.segments.base_offsets == [0, 1]


def test_snapshot_is_taken_on_roll_and_on_close(tmp_path: Path) -> None:
    """At the new segment's base offset, and at the end."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for sequence in range(6):
        append(log, idempotent(sequence))
    close(log)
    names = sorted(path.stem for path in Path(log.path).glob("*.snapshot"))
    assert [int(name) for name in names] == [*log.segments.base_offsets[1:], 6]


# -- reads -----------------------------------------------------------------------------------------------------------


def test_read_finds_every_offset_in_every_segment(tmp_path: Path) -> None:
    """S3.11, S4.9: first, last and middle offsets; at the tail and far from it; from open and reopened logs."""
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=150))
    for number in range(120):
        append(log, batch(*(b"%d" % (3 * number + part) for part in range(3))))
    for _ in range(2):
        assert len(log.segments) > 4
        for offset in range(360):
            records = list(iter_records(bytes_of(log.read(offset, 1, 360))))
            assert records[0].offset <= offset <= records[-1].offset
            assert records[offset - records[0].offset].value == b"%d" % offset
        close(log)
        log = open_log(tmp_path, log.config, clean=True)


def test_read_is_bounded_by_bytes_but_for_the_first_batch(tmp_path: Path) -> None:
    """S4.14: at most max_bytes, which may cut the last batch; one whole batch where asked for."""
    log = open_log(tmp_path)
    for _ in range(5):
        append(log, sized(100))
    assert len(log.read(0, 1 << 20, 5)) == 500
    assert len(log.read(0, 250, 5)) == 250
    assert len(log.read(1, 1, 5)) == 100
    assert len(log.read(1, 100, 5, min_one_batch=False)) == 100
    assert len(log.read(1, 99, 5, min_one_batch=False)) == 0
    assert len(log.read(1, 0, 5, min_one_batch=False)) == 0
    close(log)
    log = open_log(tmp_path, clean=True)
    assert [len(log.read(0, size, 5)) for size in (1, 250, 1 << 20)] == [100, 250, 500]
    assert len(log.read(1, 99, 5, min_one_batch=False)) == 0


def test_read_ends_at_the_end_offset(tmp_path: Path) -> None:
    """High watermark or last stable offset; nothing at or beyond it."""
    log = open_log(tmp_path, SMALL)
    for _ in range(12):
        append(log, sized(100))
    for bound in range(13):
        assert [record.offset for record in read_all(log, 0, bound)] == list(range(bound))
    assert log.read(5, 1000, 5) == b""
    assert log.read(5, 1000, 3) == b""
    assert log.read(12, 1000, 12) == b""


@pytest.mark.parametrize("offset", [-1, 4, 13, 1 << 40])
def test_offset_out_of_range(offset: int, tmp_path: Path) -> None:
    """Below the log start offset, above the log end offset."""
    log = open_log(tmp_path)
    for _ in range(12):
        append(log, batch())
    log.delete_records(5)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 1000, 12)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (5, 12)
    assert log.read(5, 1000, 12)
    assert log.read(12, 1000, 12) == b""


def test_read_in_a_gap_gives_the_next_batch(tmp_path: Path) -> None:
    """What compaction leaves: inside a segment, and from one to the next."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for offset in (0, 10, 20, 30):
        records = batch(b"%d" % offset)
        records[0:8] = offset.to_bytes(8, "big")
        log.append_replicated(records, now_ms=T0)
    crash(log)
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    assert len(log.segments) == 2
    for offset, expected in [(0, 0), (1, 10), (10, 10), (11, 20), (25, 30), (30, 30)]:
        assert next(iter_records(bytes_of(log.read(offset, 1, 31)))).offset == expected


def test_slice_outlives_its_segment(tmp_path: Path) -> None:
    """Rule H1: deleted and closed, the bytes are still those."""
    log = open_log(tmp_path)
    append(log, batch(b"kept"))
    part = log.read(0, 1000, 1)
    assert isinstance(part, FetchSlice)
    handle = part.fileno()
    for segment in log.segments:
        segment.remove_files()
    others = [open(tmp_path / str(number), "wb") for number in range(5)]  # noqa: SIM115
    assert handle not in [other.fileno() for other in others]
    for other in others:
        other.close()
    assert next(iter_records(part.read())).value == b"kept"
    assert part.acquire().read(0, 8) == bytes(8)
    part.release()
    with pytest.raises(ValueError, match="released"):
        part.fileno()


# -- transactions, epochs, time --------------------------------------------------------------------------------------


def test_open_transaction_holds_readers_of_committed_data_back(tmp_path: Path) -> None:
    """The last stable offset; aborted data is listed for what overlaps it."""
    log = open_log(tmp_path, SMALL)
    append(log, batch(b"plain"))
    append(log, idempotent(0, transactional=True))
    append(log, batch(b"after"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert [record.value for record in read_all(log, 0, log.last_stable_offset)] == [b"plain"]
    end(log, commit=False)
    assert log.last_stable_offset == log.log_end_offset == 4
    append(log, idempotent(1, transactional=True))
    end(log, commit=True)
    aborted = log.aborted_transactions(0, 6)
    assert aborted == [(7, 1, 3, 4)]
    assert log.aborted_transactions(4, 6) == []
    assert log.aborted_transactions(0, 1) == []


def test_transaction_over_several_segments_is_listed_from_its_last(tmp_path: Path) -> None:
    """Its entry lies where its marker is."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for sequence in range(6):
        append(log, idempotent(sequence, transactional=True))
    end(log, commit=False)
    append(log, batch())
    assert len(log.segments) > 3
    assert log.aborted_transactions(0, 2) == [(7, 0, 6, 7)]
    part = log.read(0, 10_000, 8)
    assert isinstance(part, FetchSlice)
    assert log.fetch_upper_bound(0, part) == log.segments[1].base_offset


def test_upper_bound_of_a_fetch_comes_from_the_index(tmp_path: Path) -> None:
    """As Apache Kafka has it: the first entry at or behind the end of what was read."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=100))
    for _ in range(10):
        append(log, sized(100))
    part = log.read(0, 250, 10)
    assert isinstance(part, FetchSlice)
    assert log.fetch_upper_bound(0, part) == 4
    whole = log.read(3, 10_000, 10)
    assert isinstance(whole, FetchSlice)
    assert log.fetch_upper_bound(3, whole) == 10


def test_markers_are_checked(tmp_path: Path) -> None:
    """Epochs of producer and coordinator, and that they end something."""
    log = open_log(tmp_path)
    append(log, idempotent(0, transactional=True, epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        end(log, commit=True, epoch=1)
    end(log, commit=True, epoch=2, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, commit=True, epoch=2, coordinator_epoch=4)
    with pytest.raises(InvalidRecords):
        append(log, batch(b"x", control=True, producer_id=7, producer_epoch=2), origin=AppendOrigin.COORDINATOR)


def test_leader_epochs_begin_where_their_first_batch_is(tmp_path: Path) -> None:
    """Or at the end of the log when a leader takes over."""
    log = open_log(tmp_path)
    log.assign_leader_epoch(0)
    append(log, batch(), leader_epoch=0)
    append(log, batch(), leader_epoch=0)
    log.assign_leader_epoch(2)
    append(log, batch(), leader_epoch=2)
    assert log.leader_epochs.entries == ((0, 0), (2, 2))
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(1) == (0, 2)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(3) == (-1, -1)


def test_offset_for_timestamp_equals_a_scan(tmp_path: Path) -> None:
    """S5.5, S5.6, S5.9: segments with times 1-100, 101-200, 201-300; also out of order, compressed, reopened."""
    log = open_log(tmp_path, LogConfig(segment_bytes=1500, index_interval_bytes=100))
    for number in range(60):
        timestamp = T0 + 5 * number - (40 if number % 7 == 3 else 0)
        append(log, batch(b"a", b"b", timestamp=timestamp, codec=Codec.GZIP if number % 2 else Codec.NONE))
    for _ in range(2):
        records = read_all(log)
        assert len(log.segments) > 2
        for target in range(T0 - 50, T0 + 310, 3):
            found = log.offset_for_timestamp(target)
            expected = next(
                ((record.timestamp, record.offset) for record in records if record.timestamp >= target), None
            )
            assert (None if found is None else found[:2]) == expected
        latest = log.max_timestamp()
        assert latest is not None
        largest = max(record.timestamp for record in records)
        assert latest == (largest, next(record.offset for record in records if record.timestamp == largest), 0)
        close(log)
        log = open_log(tmp_path, log.config, clean=True)
    log.delete_records(30)
    found = log.offset_for_timestamp(T0)
    assert found is not None
    assert found.offset == 30


def test_time_look_ups_in_an_empty_log(tmp_path: Path) -> None:
    """Nothing to find."""
    log = open_log(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    append(log, batch(timestamp=-1))
    assert log.max_timestamp() is None


# -- deleting, cutting, closing --------------------------------------------------------------------------------------


def test_delete_records_raises_the_log_start(tmp_path: Path) -> None:
    """S14.17: inside a segment; never back, never above the high watermark."""
    log = open_log(tmp_path, SMALL)
    for epoch in range(3):
        for _ in range(4):
            append(log, sized(100), leader_epoch=epoch)
    assert log.delete_records(6) == 6
    assert log.delete_records(3) == 6
    assert log.leader_epochs.entries == ((1, 6), (2, 8))
    assert [record.offset for record in read_all(log)] == list(range(6, 12))
    for offset in (13, -1):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(offset)
    assert log.delete_records(12) == 12
    assert append(log, batch()) == 12


def test_truncate_forgets_what_is_cut_off(tmp_path: Path) -> None:
    """Records, producers, epochs, transactions; appends go on from there."""
    log = open_log(tmp_path, SMALL)
    for sequence in range(10):
        append(log, idempotent(sequence, transactional=True), leader_epoch=sequence // 4)
    end(log, commit=False, leader_epoch=3)
    log.truncate_to(6, T0)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (6, 6, 0)
    assert [record.offset for record in read_all(log)] == list(range(6))
    assert log.producer_state.producers[7].last_sequence == 5
    assert log.leader_epochs.entries == ((0, 0), (1, 4))
    assert log.aborted_transactions(0, 100) == []
    assert append(log, idempotent(6, transactional=True), leader_epoch=4) == 6
    assert sorted(path.name for path in Path(log.path).glob("*.log")) == [
        f"{offset:020d}.log" for offset in log.segments.base_offsets
    ]
    log.truncate_to(100, T0)
    assert log.log_end_offset == 7
    log.truncate_to(0, T0)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_high_watermark_of_a_replicated_log_is_moved_by_others(tmp_path: Path) -> None:
    """It follows the end only where there is one replica."""
    log = open_log(tmp_path)
    log.replicated = True
    append(log, batch())
    append(log, batch())
    assert (log.high_watermark, log.last_stable_offset) == (0, 0)
    log.advance_high_watermark(1)
    assert (log.high_watermark, log.last_stable_offset) == (1, 1)
    log.advance_high_watermark(99)
    log.advance_high_watermark(0)
    assert log.high_watermark == 2


def test_closed_log_is_offline(tmp_path: Path) -> None:
    """Of a deleted topic, say."""
    log = open_log(tmp_path)
    append(log, batch())
    close(log)
    for use in (lambda: append(log, batch()), lambda: log.read(0, 1, 1), lambda: log.delete_records(1)):
        with pytest.raises(LogOffline):
            use()


def test_few_descriptors_serve_many_segments(tmp_path: Path) -> None:
    """Bounded open files: all are readable, few are open."""
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    log.directory.files.capacity = 8
    for number in range(40):
        append(log, batch(b"%d" % number))
    assert [record.value for record in read_all(log)] == [b"%d" % number for number in range(40)]
    assert len(log.directory.files) <= 8
