"""Look-ups by time go in steps: what happens to the log between two of them, and how much one of them does."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import CREATE_TIME, iter_batches, patch_timestamp
from protocol.records.compression import Codec
from protocol.records.legacy_builder import MessageSetBuilder
from storage.errors import LogOffline
from storage.log.batch_search import BatchGone, BatchSearch, search_file
from storage.log.partition import PartitionLog
from storage.log.timestamps import Allowance, TimestampAndOffset, find_max_timestamp, find_timestamp
from storage.log_config import LogConfig
from tests.support.bombs import large_record, small_records
from tests.support.logs import T0, append, batch, close, open_log, read_all

#: More records than are searched on the loop.
LARGE = 600


class Driver:
    """Runs steps; counts turns, and batches that were to be searched elsewhere. `between(search)` is called before that
    is done; what it gives, if it gives anything, is the outcome.
    """

    def __init__(self, a_turn: int, between: Callable[[BatchSearch], Any] = lambda search: None) -> None:
        self.allowance = Allowance()
        self.turns = self.searches = 0
        self._a_turn = a_turn
        self._between = between

    def run(self, steps: Any) -> TimestampAndOffset | None:
        go_on = partial(steps.send, None)
        try:
            while True:
                self.turns += 1
                self.allowance.left = self._a_turn
                search = go_on()
                go_on = partial(steps.send, None)
                if search is not None:
                    self.searches += 1
                    go_on = self._outcome(steps, search)
        except StopIteration as end:
            found: TimestampAndOffset | None = end.value
            return found

    def _outcome(self, steps: Any, search: BatchSearch) -> partial[Any]:
        try:
            return partial(steps.send, self._between(search) or search_file(search))
        except Exception as error:
            return partial(steps.throw, error)


def look_up(log: PartitionLog, timestamp: int | None, driver: Driver) -> TimestampAndOffset | None:
    """None: the largest one."""
    if timestamp is None:
        return driver.run(find_max_timestamp(lambda: log, driver.allowance))
    return driver.run(find_timestamp(lambda: log, timestamp, driver.allowance))


def large(number: int = 0, codec: Codec = Codec.GZIP) -> bytearray:
    """A batch of LARGE records, which are a millisecond apart."""
    return batch(*[b"v"] * LARGE, timestamp=T0 + number * LARGE, codec=codec)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Four segments, of a large batch each; the last one is active."""
    made = open_log(tmp_path, LogConfig(segment_bytes=len(large())))
    for number in range(4):
        append(made, large(number))
    assert len(made.segments) == 4
    return made


# -- the same answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a_turn", [1, 3, 200])
def test_any_steps_lead_to_what_a_scan_finds(tmp_path: Path, a_turn: int) -> None:
    """Times out of order, small batches and large ones, over segments; also where none of these is known yet."""
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


def test_small_batches_are_searched_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(*[b"v"] * 100, codec=Codec.ZSTD))
    append(log, batch(*[b"v" * 200] * 500))
    for timestamp in (T0 + 50, T0 + 400, None):
        driver = Driver(800)
        assert look_up(log, timestamp, driver) is not None
        assert (driver.turns, driver.searches) == (1, 0)


@pytest.mark.parametrize("what", ["many records", "many bytes", "many bytes once unpacked"])
def test_large_batches_are_searched_elsewhere(tmp_path: Path, what: str) -> None:
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
    """Their entries have an offset of their end only; sets that unpack to much are searched elsewhere."""
    log = open_log(tmp_path)
    together = LARGE if codec else 1
    for first in range(0, 2 * LARGE, together):
        builder = MessageSetBuilder(1, first, codec)
        last = first + together - 1
        for offset in range(first, last + 1):
            builder.append(T0 + offset, None, bytes(size_bytes))
        log.append_old_format(memoryview(builder.build()), last, T0 + last, T0)
    for timestamp, offset in ((T0, 0), (T0 + 700, 700), (None, 1199)):
        driver = Driver(100)
        assert look_up(log, timestamp, driver) == (T0 + offset, offset, -1)
        assert driver.searches == (codec is Codec.GZIP and size_bytes == 200)
    assert look_up(log, T0 + 1200, Driver(100)) is None


# -- how much one turn does ------------------------------------------------------------------------------------------


def test_a_scan_over_many_batches_is_cut_into_turns(tmp_path: Path) -> None:
    """The header of the first lies, and those behind it are too early. No index helps, and none is scanned twice."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1 << 30))
    lying = large_record(100, Codec.GZIP)
    [(_, header)] = iter_batches(lying)
    append(log, lying, now_ms=header.max_timestamp)
    for _ in range(1000):
        append(log, batch(timestamp=T0))
    driver = Driver(100)
    assert look_up(log, header.max_timestamp, driver) is None
    assert 10 <= driver.turns <= 12


def test_segments_of_which_nothing_is_known_yet_are_looked_at_a_few_in_a_turn(tmp_path: Path) -> None:
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


def test_no_file_is_held_open_between_steps(log: PartitionLog) -> None:
    """Rule H2: as many look-ups as there are clients may wait."""

    def give_up_files(_: BatchSearch) -> None:
        for segment in log.segments:
            segment.close()
        assert len(log.directory.files) == 0

    handles: list[int] = []
    log.directory.files.fs.close = handles.append  # type: ignore[method-assign, assignment]
    try:
        assert look_up(log, T0, Driver(1, give_up_files)) is not None
    finally:
        del log.directory.files.fs.close
    assert handles


# -- what happens meanwhile ------------------------------------------------------------------------------------------


def test_a_segment_is_removed_meanwhile(log: PartitionLog) -> None:
    """Retention: the next one has what is later, and nothing else is there any more."""

    def remove(search: BatchSearch) -> None:
        first = log.segments[0]
        if first.base_offset == 0:
            log.raise_log_start(LARGE)
            log.drop_segments([first])
            first.remove_files()

    driver = Driver(800, remove)
    assert look_up(log, T0 + 5, driver) == (T0 + LARGE, LARGE, 0)
    assert driver.searches == 2


def test_the_segment_with_the_largest_timestamp_is_removed_meanwhile(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=len(large())))
    for number in (9, 1, 2):
        append(log, large(number))

    def remove(search: BatchSearch) -> None:
        first = log.segments[0]
        if first.base_offset == 0:
            log.raise_log_start(LARGE)
            log.drop_segments([first])
            first.remove_files()

    assert look_up(log, None, Driver(800, remove)) == (T0 + 3 * LARGE - 1, 3 * LARGE - 1, 0)


def test_the_largest_timestamp_becomes_an_earlier_ones_meanwhile(tmp_path: Path) -> None:
    """The cleaner removes the batch that has claimed it: what was passed over for it is looked at again."""
    log = open_log(tmp_path, LogConfig(segment_bytes=len(large())))
    lying = large(1)
    patch_timestamp(lying, 0, len(lying), CREATE_TIME, T0 + 9 * LARGE)
    for each in (large(), lying, large()):
        append(log, each)

    def clean(search: BatchSearch) -> Any:
        searched = search_file(search)
        if search.timestamp == T0 + 9 * LARGE:
            log.drop_segments([log.segments[1]])
        return searched

    assert look_up(log, None, Driver(800)) == (T0 + 9 * LARGE, 2 * LARGE - 1, -1)
    assert look_up(log, None, Driver(800, clean)) == (T0 + LARGE - 1, LARGE - 1, 0)


def test_another_segment_takes_its_place_meanwhile(log: PartitionLog) -> None:
    """The cleaner: the file of that name has other bytes there now."""
    path = Path(log.segments[0].log.path)
    before = path.read_bytes()

    def replace(search: BatchSearch) -> None:
        path.write_bytes(before[:20] + b"\1" + before[21:])  # of its checksum, which look-ups do not go by

    driver = Driver(800, replace)
    assert look_up(log, T0 + 5, driver) == (T0 + 5, 5, 0)
    assert driver.searches == 2


def test_records_are_deleted_meanwhile(log: PartitionLog) -> None:
    """The first record that is still there, of the same batch or of a later one."""
    moved = iter([7, LARGE + 3])

    def delete_after(search: BatchSearch) -> Any:
        searched = search_file(search)
        log.delete_records(next(moved, log.log_start_offset))
        return searched

    driver = Driver(800, delete_after)
    assert look_up(log, T0, driver) == (T0 + LARGE + 3, LARGE + 3, 0)


def test_batches_are_appended_meanwhile(log: PartitionLog) -> None:
    """A later record that comes while the largest timestamp is looked for does no harm."""

    def appending(search: BatchSearch) -> Any:
        append(log, batch(b"later", timestamp=T0 + 99 * LARGE), now_ms=T0 + 99 * LARGE)

    assert look_up(log, None, Driver(800, appending)) == (T0 + 4 * LARGE - 1, 4 * LARGE - 1, 0)
    assert look_up(log, T0 + 99 * LARGE, Driver(800)) == (T0 + 99 * LARGE, 4 * LARGE, 0)


@pytest.mark.parametrize("timestamp", [T0, None])
def test_the_log_is_closed_meanwhile(log: PartitionLog, timestamp: int | None) -> None:
    with pytest.raises(LogOffline):
        look_up(log, timestamp, Driver(800, lambda search: log.close_files()))
    assert log.directory.is_online


def test_a_log_in_another_directory_takes_its_place_meanwhile(log: PartitionLog, tmp_path: Path) -> None:
    """A move (KIP-113): the look-up goes on in what is the log by then."""
    other = open_log(tmp_path / "other")
    for number in range(4):
        append(other, large(number))
    logs = [log, other]

    def move(search: BatchSearch) -> None:
        if len(logs) > 1:
            crash = logs.pop(0)
            crash.close_files()
            Path(search.path).unlink()

    driver = Driver(800, move)
    steps = find_timestamp(lambda: logs[0], T0 + LARGE + 1, driver.allowance)
    assert driver.run(steps) == (T0 + LARGE + 1, LARGE + 1, 0)
    assert driver.searches == 2


def test_a_file_that_stays_away_is_looked_for_a_few_times(log: PartitionLog) -> None:
    """And then the answer is where the batch begins: who reads from there is told what is wrong."""
    Path(log.segments[0].log.path).rename(f"{log.segments[0].log.path}.elsewhere")
    driver = Driver(800)
    assert look_up(log, T0 + 5, driver) == (T0 + LARGE - 1, 0, 0)
    assert driver.searches == 16


def test_a_disk_that_fails_takes_its_directory_offline(log: PartitionLog) -> None:
    def fail(search: BatchSearch) -> None:
        raise OSError(errno.EIO, "broken")

    with pytest.raises(LogOffline):
        look_up(log, T0, Driver(800, fail))
    assert not log.directory.is_online


def test_a_batch_that_ends_its_process_is_not_looked_into_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, large())
    for timestamp in (T0 + 5, None):
        steps = (
            find_timestamp(lambda: log, timestamp, Allowance())
            if timestamp
            else find_max_timestamp(lambda: log, Allowance())
        )
        assert isinstance(steps.send(None), BatchSearch)
        with pytest.raises(StopIteration) as end:
            steps.send(None)
        assert end.value.value == (T0 + LARGE - 1, 0, 0)


def test_a_batch_that_goes_back_ends_a_look_up_all_the_same(tmp_path: Path) -> None:
    """Somebody has written into the file: what was passed over is not told of."""
    log = open_log(tmp_path)
    lying = large_record(100, Codec.GZIP)
    [(_, header)] = iter_batches(lying)
    for _ in range(17):
        append(log, lying, now_ms=header.max_timestamp)
    last = bytearray(lying)
    struct.pack_into(">q", last, 0, 3)
    struct.pack_into(">i", last, 23, 100)
    with open(log.segments[0].log.path, "r+b") as file:
        file.seek(-len(last), 2)
        file.write(last)
    assert look_up(log, header.max_timestamp, Driver(800)) == (header.max_timestamp, 16, -1)


# -- one batch -------------------------------------------------------------------------------------------------------


def test_a_search_says_how_much_it_looked_at(log: PartitionLog) -> None:
    [entry] = log.segments[1].scan(0)
    search = BatchSearch(log.segments[1].log.path, entry, T0 + LARGE + 9, False, 0, 1000)

    assert search_file(search) == ((T0 + LARGE + 9, LARGE + 9), 10, True)
    assert search_file(search._replace(first_offset=LARGE + 20)) == ((T0 + LARGE + 20, LARGE + 20), 21, True)
    assert search_file(search._replace(exact=True)) == ((T0 + LARGE + 9, LARGE + 9), 10, True)
    assert search_file(search._replace(timestamp=T0 + 9 * LARGE)) == (None, LARGE, True)
    assert search_file(search._replace(most_records=9)) == (None, 9, False)
    assert search_file(search._replace(most_records=10)) == ((T0 + LARGE + 9, LARGE + 9), 10, True)


def test_a_search_in_more_than_may_be_unpacked_finds_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    bomb = small_records(1 << 27, Codec.ZSTD)
    [(_, header)] = iter_batches(bomb)
    append(log, bomb, now_ms=header.max_timestamp)
    [entry] = log.segments[0].scan(0)
    assert search_file(BatchSearch(log.segments[0].log.path, entry, T0, False, 0, 1000)) == (None, 0, False)


@pytest.mark.parametrize("left", [0, 10, 61, 70])
def test_a_batch_that_is_cut_off_is_gone(log: PartitionLog, left: int) -> None:
    [entry] = log.segments[0].scan(0)
    path = Path(log.segments[0].log.path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(BatchGone):
        search_file(BatchSearch(str(path), entry, T0, False, 0, 1000))
