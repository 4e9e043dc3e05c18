"""Look-ups by time run in steps: any division gives the same result, and no step takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.batch import iter_batches
from protocol.records.compression import Codec
from protocol.records.legacy_builder import MessageSetBuilder
from storage.fs import LOCAL
from storage.log.timestamps import find_last_written_by
from storage.log_config import LogConfig
from tests.support.bombs import large_record
from tests.support.logs import T0, append, batch, close, open_log, read_all
from tests.support.look_ups import LARGE, Driver, look_up

# -- the same result ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a_turn", [1, 3, 200])
def test_any_steps_give_the_result_of_a_scan(tmp_path: Path, a_turn: int) -> None:
    """Timestamps out of order, small and large batches, several segments; also before anything is cached."""
    config = LogConfig(segment_bytes=4000, index_interval_bytes=400)
    log = open_log(tmp_path, config)
    for number in range(40):
        values = [b"value"] * (LARGE if number % 8 == 5 else 3)
        timestamp = T0 + 1000 * number - (4000 if number % 7 == 3 else 0)
        append(log, batch(*values, timestamp=timestamp, codec=Codec.GZIP if number % 2 else Codec.NONE))
    assert len(log.segments) > 3
    log.delete_records(4)
    records = read_all(log)
    extra = 0
    for _ in range(2):
        for target in range(T0 - 500, T0 + 42_000, 1700):
            fits = (record for record in records if record.timestamp >= target)
            expected = next(fits, None)
            driver = Driver(a_turn)
            found = look_up(log, target, driver)
            assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset))
            extra += driver.turns - 1 - driver.searches
        largest = max(record.timestamp for record in records)
        first = next(record.offset for record in records if record.timestamp == largest)
        assert look_up(log, None, Driver(a_turn)) == (largest, first, 0)
        assert extra or a_turn == 200
        close(log)
        log = open_log(tmp_path, config, clean=True, log_start_offset=4)


def test_small_batches_are_searched_on_the_event_loop(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(*[b"v"] * 100, codec=Codec.ZSTD))
    append(log, batch(*[b"v" * 200] * 500))
    for timestamp in (T0 + 50, T0 + 400, None):
        driver = Driver(800)
        assert look_up(log, timestamp, driver) is not None
        assert (driver.turns, driver.searches) == (1, 0)


@pytest.mark.parametrize("what", ["many records", "many bytes", "many bytes once unpacked"])
def test_large_batches_are_searched_in_a_worker(tmp_path: Path, what: str) -> None:
    log = open_log(tmp_path)
    append(
        log,
        {
            "many records": lambda: batch(*[b"v"] * LARGE),
            "many bytes": lambda: batch(bytes(200_000), b"v"),
            "many bytes once unpacked": lambda: batch(bytes(200_000), b"v", codec=Codec.ZSTD),
        }[what](),
    )
    driver = Driver(800)
    assert look_up(log, T0 + 1, driver) == (T0 + 1, 1, 0)
    assert driver.searches == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("size_bytes", [1, 200])
def test_messages_of_format_v1_are_found_too(tmp_path: Path, codec: Codec, size_bytes: int) -> None:
    """Their entries only have their last offset; sets that decompress to many bytes are searched in a worker."""
    log = open_log(tmp_path)
    together = LARGE if codec else 1
    for first in range(0, 2 * LARGE, together):
        builder = MessageSetBuilder(1, first, codec)
        last = first + together - 1
        for offset in range(first, last + 1):
            builder.append(T0 + offset, None, bytes(size_bytes))
        log.append_replicated(memoryview(builder.build()), now_ms=T0)
    for timestamp, offset in ((T0, 0), (T0 + 700, 700), (None, 1199)):
        driver = Driver(100)
        assert look_up(log, timestamp, driver) == (T0 + offset, offset, -1)
        assert driver.searches == (codec is Codec.GZIP and size_bytes == 200)
    assert look_up(log, T0 + 1200, Driver(100)) is None


# -- work per turn ---------------------------------------------------------------------------------------------------


def test_scan_over_many_batches_is_split_into_turns(tmp_path: Path) -> None:
    """The first header is wrong and later batches are too early: no index helps, and no batch is scanned twice."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1 << 30))
    lying = large_record(100, Codec.GZIP)
    [(_, header)] = iter_batches(lying)
    append(log, lying, now_ms=header.max_timestamp)
    for _ in range(1000):
        append(log, batch(timestamp=T0))
    driver = Driver(100)
    assert look_up(log, header.max_timestamp, driver) is None
    assert 10 <= driver.turns <= 12


def test_few_unknown_segments_are_read_per_turn(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=100)
    log = open_log(tmp_path, config)
    for number in range(50):
        append(log, batch(timestamp=T0 + number))
    close(log)
    for timestamp in (T0 + 49, None):
        log = open_log(tmp_path, config, clean=True)
        driver = Driver(800)
        assert look_up(log, timestamp, driver) == (T0 + 49, 49, 0)
        assert driver.turns > 5
        again = Driver(800)
        assert look_up(log, timestamp, again) == (T0 + 49, 49, 0)
        assert again.turns == 1


# -- modification times of segments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("a_turn", [1, 800])
def test_last_segment_written_before_a_time(tmp_path: Path, a_turn: int) -> None:
    """The newest one, even if an older one was written later; each turn opens a few files."""
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    for number in range(100):
        append(log, batch(timestamp=T0 + number))
        LOCAL.set_modified_ms(log.segments[number].log.path, T0 + (9999 if number == 7 else number))
    for timestamp, expected in ((T0 - 1, -1), (T0, 0), (T0 + 7, 6), (T0 + 50, 50), (T0 + 99, 99)):
        driver = Driver(a_turn)
        assert driver.run(find_last_written_by(lambda: log, timestamp, driver.allowance)) == expected
        looked_at = 100 - max(expected, 0)
        assert driver.turns == (looked_at if a_turn == 1 else -(-looked_at // 40))
