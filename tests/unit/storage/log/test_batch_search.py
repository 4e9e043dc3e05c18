"""A search for a timestamp in one batch of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.batch import iter_batches
from protocol.records.compression import Codec
from protocol.records.errors import OversizedRecord
from storage.log.batch_search import BatchGone, BatchSearch, search_file
from storage.log.partition_log import PartitionLog
from tests.support.bombs import small_records
from tests.support.data_client import batch
from tests.support.logs import T0, append, open_log
from tests.support.look_ups import LARGE, large_segments


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return large_segments(tmp_path)


def test_search_reports_the_number_of_records(log: PartitionLog) -> None:
    [entry] = log.segments[1].scan(0)
    search = BatchSearch(log.segments[1].log.path, entry, T0 + LARGE + 9, False, 0, 1000)

    assert search_file(search) == ((T0 + LARGE + 9, LARGE + 9), 10, True)
    assert search_file(search._replace(first_offset=LARGE + 20)) == ((T0 + LARGE + 20, LARGE + 20), 21, True)
    assert search_file(search._replace(exact=True)) == ((T0 + LARGE + 9, LARGE + 9), 10, True)
    assert search_file(search._replace(timestamp=T0 + 9 * LARGE)) == (None, LARGE, True)
    assert search_file(search._replace(most_records=9)) == (None, 9, False)
    assert search_file(search._replace(most_records=10)) == ((T0 + LARGE + 9, LARGE + 9), 10, True)


def test_search_beyond_the_size_limit_finds_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    bomb = small_records(1 << 27, Codec.ZSTD)
    [(_, header)] = iter_batches(bomb)
    append(log, bomb, now_ms=header.max_timestamp)
    [entry] = log.segments[0].scan(0)
    assert search_file(BatchSearch(log.segments[0].log.path, entry, T0, False, 0, 1000)) == (None, 0, False)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_oversized_record_before_the_result_stops_the_search(tmp_path: Path, codec: Codec) -> None:
    """Only in a compressed batch, as in Apache Kafka 4.4."""
    log = open_log(tmp_path)
    append(log, batch(b"a", b"b" * 2000, b"c", codec=codec, timestamp=T0))
    [entry] = log.segments[0].scan(0)
    search = BatchSearch(log.segments[0].log.path, entry, T0 + 2, False, 0, 1000, most_record_bytes=1000)

    assert search_file(search._replace(timestamp=T0)) == ((T0, 0), 1, True)
    assert search_file(search._replace(most_record_bytes=3000)) == ((T0 + 2, 2), 3, True)
    for timestamp in (T0 + 1, T0 + 2):
        wanted = search._replace(timestamp=timestamp)
        if codec == Codec.NONE:
            assert search_file(wanted).found == (timestamp, timestamp - T0)
        else:
            with pytest.raises(OversizedRecord, match="exceeds the configured maximum record size of 1000"):
                search_file(wanted)


@pytest.mark.parametrize("left", [0, 10, 61, 70])
def test_truncated_batch_is_not_found(log: PartitionLog, left: int) -> None:
    [entry] = log.segments[0].scan(0)
    path = Path(log.segments[0].log.path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(BatchGone):
        search_file(BatchSearch(str(path), entry, T0, False, 0, 1000))
