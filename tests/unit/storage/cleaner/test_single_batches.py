"""Logs of one-record batches are processed window by window, with the same result as one by one."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from storage.cleaner.batches import find_borders
from storage.cleaner.heads import Heads
from storage.cleaner.job import Resources
from storage.cleaner.record_rows import record_sizes
from storage.cleaner.single_batches import read_heads, walk_keys
from storage.cleaner.walk import walk_batches
from storage.errors import CorruptFile
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.cleaning import clean_log, consume
from tests.support.logs import T0, append, open_log

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=200, delete_retention_ms=1000)
SMALL_WINDOWS = Resources(io_buffer_bytes=1 << 12)

keys = st.one_of(st.integers(0, 9).map(lambda number: b"key-%d" % number), st.binary(max_size=70))
values = st.one_of(st.none(), st.integers(0, 150), st.just(40), st.sampled_from([3000, 5000, 20_000]))
found = st.lists(st.tuples(keys, values), min_size=1, max_size=60)


def single(key: bytes | None, value: bytes | None, timestamp: int = T0, **header: int) -> bytearray:
    builder = BatchBuilder(**header)
    builder.append(timestamp, key, value)
    return bytearray(builder.build())


def batches(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Return all batches by offset."""
    data = b"".join(Path(segment.log.path).read_bytes() for segment in log.segments)
    return [(header.base_offset, data[at : at + header.size_bytes]) for at, header in iter_batches(data)]


@given(found, found, st.booleans())
def test_last_batch_of_each_key_stays_as_it_is(first: list, second: list, same_key_size: bool) -> None:  # type: ignore[type-arg]
    """The second round looks up the keys of the clean part. Tombstones are kept."""
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(Path(directory), CONFIG)
        appended: dict[int, bytes] = {}
        last: dict[bytes, tuple[int, bytes | None]] = {}
        checkpoint = None
        for rounds in (first, second):
            for number, (key, size) in enumerate(rounds):
                offset = log.log_end_offset
                key = (key + bytes(5))[:5] if same_key_size else key
                value = None if size is None else bytes(size)
                append(log, single(key, value, T0 + number % 7))
                last[key] = offset, value
            appended.update(batches(log))
            log.roll(log.log_end_offset, T0)
            result = clean_log(log, T0, checkpoint, resources=SMALL_WINDOWS)
            assert result is not None
            checkpoint = result.end_offset
            kept = sorted((offset, key, value) for key, (offset, value) in last.items())
            assert [(record.offset, record.key, record.value) for record in consume(log)] == kept
            assert result.kept_records == len(kept)
            values = {offset: value for offset, _, value in kept}
            for offset, data in batches(log):
                assert data == appended[offset] or values[offset] is None
            for offset, _, _ in kept:
                entry = log.segments[log.segments.floor(offset)].find(offset)
                assert entry is not None
                assert entry.base_offset == offset
        log.close()


@given(
    st.lists(st.tuples(keys, st.one_of(st.none(), st.integers(0, 200))), min_size=1, max_size=12),
    st.integers(0, 60),
    st.none() | st.tuples(st.integers(min_value=0), st.integers(1, 255)),
    st.booleans(),
)
def test_slices_and_loops_give_the_same_keys(
    records: list[tuple[bytes, int | None]], left_out: int, changed: tuple[int, int] | None, same_key_size: bool
) -> None:
    """For whole and damaged batches. Which of the two runs depends on whether the modules are compiled."""
    built = []
    for offset, (key, size) in enumerate(records):
        key = (key + bytes(5))[:5] if same_key_size else key
        built.append(single(key, None if size is None else bytes(size), base_offset=offset))
    data = bytearray(b"".join(built))
    if changed is not None:
        data[changed[0] % len(data)] ^= changed[1]
    window = bytes(data[: len(data) - left_out])
    walked = walk_batches(window, False)
    borders = find_borders(window)
    heads = Heads(window, borders[:-1]) if len(borders) > 1 else None
    if heads is None or not heads.are_of_v2():
        assert walked is None
        return
    offsets = heads.offsets().tolist() if heads.are_single() else None
    assert walked is not None
    assert walked[0] == borders
    assert (None if walked[1] is None else list(walked[1])) == offsets
    in_order = offsets is not None and all(later == earlier + 1 for earlier, later in pairwise(offsets))
    assert isinstance(walked[1], range) == in_order
    if offsets is not None:
        sliced, walked_keys = read_heads(heads), walk_keys(window, borders[:-1], borders[1:])
        assert sliced is None or sliced == walked_keys
        assert (
            sliced is not None or changed is not None or not same_key_size or len({size_bytes(r) for r in records}) > 1
        )


def size_bytes(record: tuple[bytes, int | None]) -> bool:
    """Return whether the size of a record with a key of five bytes has two bytes."""
    size = record[1] or 0
    return 4 + 1 + 5 + (2 if size > 63 else 1) + size >= 64


def test_batches_larger_than_a_window_are_kept_whole(tmp_path: Path) -> None:
    """Each is read by itself, in the first and the second pass."""
    log = open_log(tmp_path, CONFIG)
    for number, size in enumerate([300_000, 10, 400_000, 1, 300_000, 10]):
        append(log, single(b"key-%d" % (number % 4), bytes(size)))
    log.roll(log.log_end_offset, T0)
    before = batches(log)
    result = clean_log(log, T0)
    assert result is not None
    assert batches(log) == before[2:]
    log.close()


def test_sizes_with_superfluous_bytes_are_invalid() -> None:
    """The first two bytes of a record may be a size of two bytes, or a size of one byte and the attributes."""
    sizes = record_sizes()
    assert sizes[0x90 | 0x00 << 8] == 0
    assert sizes[0x90 | 0x01 << 8] == 2 + 72
    assert sizes[0x10 | 0x00 << 8] == 1 + 8


@pytest.mark.parametrize("size", [20, 100])
def test_wrong_checksum_in_a_window_stops_the_round(tmp_path: Path, size: int) -> None:
    """A log that the disk has damaged is not cleaned."""
    log = open_log(tmp_path, CONFIG)
    for number in range(50):
        append(log, single(b"k", bytes(size + number % 3)))
    log.roll(log.log_end_offset, T0)
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match="checksum"):
        clean_log(log, T0)
    assert path.read_bytes() == data


def test_last_batch_of_a_producer_stays_without_its_record(tmp_path: Path) -> None:
    """S15: its header has the sequence number; the other batches of the window are removed."""
    log = open_log(tmp_path, CONFIG)
    for number in range(20):
        append(log, single(b"k", b"v", producer_id=7, producer_epoch=0, base_sequence=number))
    append(log, single(b"k", b"v"))
    log.roll(log.log_end_offset, T0)
    clean_log(log, T0)
    assert [(offset, len(data)) for offset, data in batches(log)] == [(19, 61), (20, 70)]
