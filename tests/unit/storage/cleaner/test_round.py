"""A round of the cleaner, rule by rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from protocol.records.batch import BatchHeader, iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.errors import OversizedRecord
from protocol.records.legacy_builder import MessageSetBuilder
from storage.cleaner.job import Resources, SourceSegment, group_segments
from storage.cleaner.round import clean
from storage.errors import CorruptFile
from storage.log.partition_log import PartitionLog
from storage.log_config import INT_MAX, LogConfig
from storage.segment.files import CLEANED_SUFFIX
from tests.support.cleaning import clean_log, consume, job_for, swap_in
from tests.support.logs import T0, append, batch, end, open_log

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=400, index_interval_bytes=100, delete_retention_ms=1000
)


def keyed(key: bytes | None, value: bytes | None = b"value", **header: int) -> bytearray:
    builder = BatchBuilder(**header)
    builder.append(T0, key, value)
    return bytearray(builder.build())


def several(*records: tuple[bytes, bytes | None], **header: int) -> bytearray:
    builder = BatchBuilder(**header)
    for number, (key, value) in enumerate(records):
        builder.append(T0 + number, key, value)
    return bytearray(builder.build())


def make(root: Path, config: LogConfig = CONFIG) -> PartitionLog:
    return open_log(root, config)


def close_segment(log: PartitionLog) -> None:
    """Roll the log, so that all batches are in closed segments."""
    log.roll(log.log_end_offset, T0)


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in consume(log)]


def headers(log: PartitionLog) -> list[BatchHeader]:
    """Return the headers of all batches in closed segments."""
    found = []
    for segment in log.segments[:-1]:
        found += [header for _, header in iter_batches(Path(segment.log.path).read_bytes())]
    return found


def test_last_record_of_each_key_stays(tmp_path: Path) -> None:
    """S15.1, S15.12: records keep offset and order; the active segment does not change."""
    log = make(tmp_path)
    for key, value in ((b"k1", b"a"), (b"k2", b"b"), (b"k1", b"c")):
        append(log, keyed(key, value))
    close_segment(log)
    append(log, keyed(b"k2", b"later"))
    append(log, keyed(b"k2", b"last"))
    result = clean_log(log, T0)
    assert result is not None
    assert result.end_offset == 3
    assert contents(log) == [(1, b"k2", b"b"), (2, b"k1", b"c"), (3, b"k2", b"later"), (4, b"k2", b"last")]
    assert (result.read_records, result.kept_records, result.keys) == (3, 2, 2)


def test_second_round_drops_superseded_records(tmp_path: Path) -> None:
    """Keys of the clean part are looked up among the keys of the new part."""
    log = make(tmp_path)
    for number in range(4):
        append(log, several((b"a", b"%d" % number), (b"b-%d" % number, b"stays")))
    close_segment(log)
    first = clean_log(log, T0)
    assert first is not None
    append(log, keyed(b"a", b"new"))
    append(log, keyed(b"b-1", b"new"))
    close_segment(log)
    second = clean_log(log, T0, first.end_offset)
    assert second is not None
    assert second.end_offset == log.log_end_offset
    assert contents(log) == [
        (1, b"b-0", b"stays"),
        (5, b"b-2", b"stays"),
        (7, b"b-3", b"stays"),
        (8, b"a", b"new"),
        (9, b"b-1", b"new"),
    ]


def test_tombstone_gets_a_horizon_and_is_removed_after_it(tmp_path: Path) -> None:
    """KIP-534, S15.11: the first cleaning sets it to delete.retention.ms from now; an existing horizon is kept."""
    log = make(tmp_path)
    append(log, several((b"a", b"1"), (b"b", b"1"), (b"c", None)))
    append(log, keyed(b"a", None))
    append(log, keyed(b"last"))
    close_segment(log)
    clean_log(log, T0)
    assert contents(log) == [(1, b"b", b"1"), (2, b"c", None), (3, b"a", None), (4, b"last", b"value")]
    assert [header.delete_horizon for header in headers(log)] == [T0 + 1000, T0 + 1000, None]
    assert [record.timestamp for record in consume(log)] == [T0 + 1, T0 + 2, T0, T0]
    clean_log(log, T0 + 999)
    assert [header.delete_horizon for header in headers(log)] == [T0 + 1000, T0 + 1000, None]
    assert len(contents(log)) == 4
    clean_log(log, T0 + 1000)
    assert contents(log) == [(1, b"b", b"1"), (4, b"last", b"value")]


def test_batch_without_dropped_records_is_copied_unchanged(tmp_path: Path) -> None:
    """A compressed batch is copied byte for byte."""
    log = make(tmp_path, CONFIG)
    batches = [
        several((b"a-%d" % number, b"x" * 50), (b"b-%d" % number, b"y"), codec=Codec.ZSTD) for number in range(3)
    ]
    for each in batches:
        append(log, each)
    close_segment(log)
    before = b"".join(Path(segment.log.path).read_bytes() for segment in log.segments)
    clean_log(log, T0)
    assert before == b"".join(Path(segment.log.path).read_bytes() for segment in log.segments)


@pytest.mark.parametrize("codec", list(Codec))
def test_rewritten_batch_keeps_everything_else(codec: Codec, tmp_path: Path) -> None:
    """Offsets, codec, sequence, epoch, times and record headers are kept; the base timestamp is that of the first
    record.
    """
    log = make(tmp_path, LogConfig())
    builder = BatchBuilder(codec=codec, producer_id=5, producer_epoch=2, base_sequence=10)
    for number in range(300):
        builder.append(T0 + 7 * number, b"key-%d" % (number // 3), b"v" * (number % 200), (("h", b"%d" % number),))
    append(log, bytearray(builder.build()), leader_epoch=3)
    append(log, keyed(b"other"), leader_epoch=3)
    close_segment(log)
    log.config = CONFIG
    original = headers(log)[0]
    clean_log(log, T0)
    kept = [record for record in consume(log) if record.key != b"other"]
    assert [record.offset for record in kept] == list(range(2, 300, 3))
    assert all(record.timestamp == T0 + 7 * record.offset for record in kept)
    assert all(record.headers == (("h", b"%d" % record.offset),) for record in kept)
    assert [record.sequence for record in kept] == [record.offset + 10 for record in kept]
    header = headers(log)[0]
    assert header.base_timestamp == T0 + 14
    same = header._replace(base_timestamp=0, batch_length=0, crc=0, record_count=0)
    assert same == original._replace(base_timestamp=0, batch_length=0, crc=0, record_count=0)


def test_log_append_time_stays(tmp_path: Path) -> None:
    """All records of such a batch have its largest timestamp, also after some were removed."""
    log = make(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_type="LogAppendTime"))
    append(log, several((b"a", b"1"), (b"b", b"1"), (b"a", b"2")), now_ms=T0 + 5_000)
    append(log, keyed(b"b"), now_ms=T0 + 6_000)
    close_segment(log)
    clean_log(log, T0)
    assert [(record.offset, record.timestamp) for record in consume(log)] == [(2, T0 + 5_000), (3, T0 + 6_000)]
    assert headers(log)[0].timestamp_type == 1


def test_records_without_a_key_are_removed(tmp_path: Path) -> None:
    """They exist if the topic was not compacted before."""
    log = make(tmp_path, LogConfig(segment_bytes=400))
    append(log, batch(b"no key"))
    log.config = CONFIG
    append(log, keyed(b"a"))
    close_segment(log)
    clean_log(log, T0)
    assert contents(log) == [(1, b"a", b"value")]


def test_last_batches_of_producer_and_round_stay_empty(tmp_path: Path) -> None:
    """A producer continues its sequence, also after a restart, and the log end offset does not change."""
    log = make(tmp_path)
    append(log, keyed(b"a", producer_id=7, producer_epoch=1, base_sequence=0))
    append(log, keyed(b"a", producer_id=7, producer_epoch=1, base_sequence=1))
    append(log, keyed(b"a", b"last"))
    append(log, keyed(b"b", None))
    close_segment(log)
    clean_log(log, T0)
    clean_log(log, T0 + 5_000)
    assert contents(log) == [(2, b"a", b"last")]
    found = [(header.base_offset, header.record_count, header.base_sequence) for header in headers(log)]
    assert found == [(1, 0, 1), (2, 1, -1), (3, 0, -1)]
    assert headers(log)[0].base_timestamp == -1
    assert headers(log)[0].max_timestamp == T0


def test_aborted_records_go_at_once_markers_after_horizon(tmp_path: Path) -> None:
    """KIP-98, KIP-534: the marker gets a horizon in the round after the one that removed the records."""
    log = make(tmp_path)
    transactional = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    append(log, keyed(b"a", b"kept"))
    append(log, keyed(b"a", b"aborted", base_sequence=0, **transactional))
    end(log, commit=False)
    append(log, keyed(b"b", b"committed", base_sequence=1, **transactional))
    end(log, commit=True)
    append(log, keyed(b"c", base_sequence=2, **transactional))
    end(log, commit=True)
    close_segment(log)
    offsets = [[0, 2, 3, 4, 5, 6], [0, 2, 3, 4, 5, 6], [0, 3, 4, 5, 6]]
    for now_ms, expected in zip((T0, T0 + 1, T0 + 5_000), offsets, strict=True):
        clean_log(log, now_ms)
        assert [header.base_offset for header in headers(log)] == expected
    assert log.aborted_transactions(0, 10) == []


def test_interrupted_round_counts_for_swapped_segments(tmp_path: Path) -> None:
    """KIP-534, as in Apache Kafka: the next round sets a horizon for the markers in these segments only."""
    log = make(tmp_path)
    for producer_id in (7, 8):
        append(log, keyed(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))
        append(log, keyed(b"b" * 100))
        end(log, commit=True, producer_id=producer_id)
        close_segment(log)
    for producer_id in (7, 8):  # otherwise the empty batches are kept for their sequences
        append(log, keyed(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=1))
    append(log, keyed(b"b" * 100))
    close_segment(log)
    job = job_for(log, T0)
    assert job is not None
    result = clean(job)
    assert [segment.replaced for segment in result.segments[:2]] == [(0,), (3,)]
    swap_in(log, replace(result, segments=result.segments[:1]), T0)
    clean_log(log, T0)
    assert [header.delete_horizon for header in headers(log) if header.is_control] == [T0 + 1000, None]


def test_data_beyond_an_open_transaction_is_not_cleaned(tmp_path: Path) -> None:
    """Whole segments at or above the last stable offset are not cleaned."""
    log = make(tmp_path)
    for number in range(3):
        append(log, keyed(b"a", b"%d" % number))
    close_segment(log)
    append(log, keyed(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, keyed(b"a"))
    close_segment(log)
    append(log, keyed(b"a"))
    result = clean_log(log, T0)
    assert result is not None
    assert result.end_offset == 3
    assert [offset for offset, _, _ in contents(log)] == [2, 3, 4, 5]


def test_full_table_ends_the_round_and_the_next_continues(tmp_path: Path) -> None:
    """S15.6, S15.8: a round has at most buffer * load factor / 24 keys; several rounds give the same result."""
    log = make(tmp_path)
    for number in range(30):
        append(log, several((b"k-%d" % (number % 10), b"%d" % number), (b"j-%d" % (number % 7), b"%d" % number)))
    close_segment(log)
    resources = Resources(memory_bytes=24 * 10, load_factor=0.9)
    checkpoint: int | None = None
    rounds = 0
    while job_for(log, T0, checkpoint) is not None:
        result = clean_log(log, T0, checkpoint, resources=resources)
        assert result is not None
        assert result.keys <= 9
        assert result.end_offset > (checkpoint or 0)
        checkpoint = result.end_offset
        rounds += 1
    assert rounds > 5
    assert checkpoint == log.active_segment.base_offset
    last = {record.key: record.offset for record in consume(log)}
    assert len(last) == 17
    assert sorted(last.values()) == [offset for offset, _, _ in contents(log)]
    assert min(last.values()) == 40


def test_small_segments_become_one_up_to_segment_bytes(tmp_path: Path) -> None:
    """The offsets of a segment stay within 31 bits of its base offset."""
    config = LogConfig(segment_bytes=100, segment_index_bytes=80)

    def grouped(*segments: tuple[int, int, int], end_offset: int = 1 << 40) -> list[list[int]]:
        sources = [SourceSegment(base, size, index, index) for base, size, index in segments]
        return [[each.base_offset for each in group] for group in group_segments(sources, config, end_offset)]

    assert grouped((0, 40, 0), (10, 60, 0), (20, 1, 0), end_offset=30) == [[0, 10], [20]]
    assert grouped((0, 400, 0), (10, 60, 0), (20, 40, 0), end_offset=30) == [[0], [10, 20]]
    assert grouped((0, 1, 40), (10, 1, 40), (20, 1, 8), end_offset=30) == [[0, 10], [20]]
    assert grouped((0, 1, 0), (10, 1, 0), (INT_MAX, 1, 0), end_offset=INT_MAX + 1) == [[0, 10, INT_MAX]]
    assert grouped((0, 1, 0), (10, 1, 0), (INT_MAX, 1, 0), end_offset=INT_MAX + 2) == [[0, 10], [INT_MAX]]
    assert grouped((0, 1, 0), (10, 0, 0), (1 << 33, 1, 0), end_offset=1 << 34) == [[0, 10], [1 << 33]]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_are_kept(magic: int, codec: Codec, tmp_path: Path) -> None:
    """Messages v0 and v1, also wrapped ones. The age of the file decides on their tombstones."""
    log = make(tmp_path)
    append(log, keyed(b"placeholder"))
    close_segment(log)
    append(log, keyed(b"active"))
    builder = MessageSetBuilder(magic, 0, codec)
    for number, key in enumerate((b"a", b"b", b"a", b"c", b"b", b"t", b"a")):
        builder.append(T0 + number, key, None if key == b"t" else b"%d" % number, offset=number)
    data = builder.build()
    first, active = log.segments
    log.close_files()
    Path(first.log.path).write_bytes(data)
    for path in (active.log.path, active.offset_index.file.path, active.time_index.file.path):
        Path(path).unlink()
    log = open_log(tmp_path, CONFIG)
    close_segment(log)
    clean_log(log, T0)
    assert [(offset, key) for offset, key, _ in contents(log)] == [(3, b"c"), (4, b"b"), (5, b"t"), (6, b"a")]
    assert Path(log.segments[0].log.path).read_bytes()[16] == magic
    if magic:
        assert [record.timestamp for record in consume(log)] == [T0 + number for number in (3, 4, 5, 6)]


def test_segment_with_a_wrong_checksum_is_not_cleaned(tmp_path: Path) -> None:
    """The rewritten batch would get a right checksum and hide the damage."""
    log = make(tmp_path)
    for number in range(8):
        append(log, keyed(b"a", b"%d" % number))
    close_segment(log)
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[205] ^= 1
    path.write_bytes(data)
    job = job_for(log, T0)
    assert job is not None
    with pytest.raises(CorruptFile, match="the batch at byte 140 cannot be cleaned: its checksum is wrong") as caught:
        clean(job)
    assert str(path) in str(caught.value)
    assert not list(path.parent.glob("*" + CLEANED_SUFFIX))
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptFile):
        clean(job)


@pytest.mark.parametrize("is_clean", [False, True])
def test_oversized_compressed_record_stops_the_round(tmp_path: Path, is_clean: bool) -> None:
    """max.decompressed.message.bytes: the log stays as it is, even if the record was cleaned before."""
    log = make(tmp_path)
    append(log, several((b"a", b"1"), (b"b", b"x" * 2000), codec=Codec.GZIP))
    append(log, several((b"a", b"2"), (b"c", b"1"), codec=Codec.GZIP))
    close_segment(log)
    before = contents(log)
    log.config = dataclasses.replace(CONFIG, max_decompressed_message_bytes=1000)
    with pytest.raises(OversizedRecord, match="exceeds the configured maximum record size of 1000"):
        clean_log(log, T0, 2 if is_clean else None)
    assert contents(log) == before
    log.config = dataclasses.replace(CONFIG, max_decompressed_message_bytes=3000)
    clean_log(log, T0)
    assert contents(log) == [before[1], before[2], before[3]]
