"""The cleaner's output compared with that of Apache Kafka for the same files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from protocol.records.batch import BatchHeader, iter_batches
from protocol.records.entries import iter_records
from storage.cleaner.round import clean
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from storage.segment.files import CLEANED_SUFFIX, SUFFIXES
from tests.support.cleaning import job_for
from tests.support.dump_log import LOGS

RECORDED = LOGS / "v4.3.1-compaction-1-before", LOGS / "v4.3.1-compaction-2-cleaned"
LAST = LOGS / "v4.3.1-compaction-3-tombstones-gone"
DAY_MS = 86_400_000


def recorded_log(directory: Path, segment_files: list[Path], config: LogConfig, now_ms: int) -> PartitionLog:
    directory.mkdir(parents=True)
    for path in segment_files:
        shutil.copy2(path, directory / path.name.removesuffix(".deleted"))
    topic = directory.name.removesuffix("-0")
    return load_log(
        LogDirectory(str(directory.parent)), StoredLog(str(directory), topic, 0, config, now_ms, clean=True)
    )


def check_against(want: Path, log: PartitionLog, now_ms: int, checkpoint: int, same_bytes: bool) -> None:
    """Compare each cleaned file with Apache Kafka's; where the compressors differ, compare the records."""
    job = job_for(log, now_ms, checkpoint)
    assert job is not None
    result = clean(job)
    assert result.segments
    for segment in result.segments:
        for suffix in SUFFIXES:
            name = f"{segment.base_offset:020d}{suffix}"
            ours, theirs = Path(job.directory, name + CLEANED_SUFFIX), want / name
            assert ours.exists() == theirs.exists() == (suffix in segment.sizes), name
            if not theirs.exists():
                continue
            assert segment.sizes[suffix] == ours.stat().st_size
            if same_bytes:
                assert ours.read_bytes() == theirs.read_bytes(), name
            elif suffix == ".log":
                one, other = ours.read_bytes(), theirs.read_bytes()
                assert list(iter_records(one)) == list(iter_records(other))
                assert [without_sizes(each) for _, each in iter_batches(one)] == [
                    without_sizes(each) for _, each in iter_batches(other)
                ]
    assert sorted(base for segment in result.segments for base in segment.replaced) == [
        segment.base_offset for segment in log.segments[:-1]
    ]


def without_sizes(header: BatchHeader) -> BatchHeader:
    return header._replace(batch_length=0, crc=0)


@pytest.mark.parametrize(
    ("topic", "now_ms", "delete_retention_ms"),
    [
        ("compacted", 1_795_261_665_874, 3000),
        ("compacted-gzip", 1_795_261_666_027, 3000),
        ("compacted-keep", 1_795_261_665_945, DAY_MS),
        ("compacted-txn", 1_795_262_000_000, 3000),
    ],
)
def test_first_cleaning_equals_that_of_apache_kafka(
    topic: str, now_ms: int, delete_retention_ms: int, tmp_path: Path
) -> None:
    """S15.1: files equal byte for byte: records, horizons, empty segments, indexes, aborted transactions."""
    before, after = (each / f"{topic}-0" for each in RECORDED)
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}),
        segment_bytes=1500,
        index_interval_bytes=100,
        delete_retention_ms=delete_retention_ms,
    )
    log = recorded_log(tmp_path / before.name, list(before.iterdir()), config, now_ms)
    check_against(after, log, now_ms, 0, same_bytes="gzip" not in topic)


@pytest.mark.parametrize(
    ("topic", "now_ms", "checkpoint"),
    [("compacted", 1_795_261_691_057, 121), ("compacted-txn", 1_795_261_691_057, 65)],
)
def test_second_cleaning_equals_that_of_apache_kafka(topic: str, now_ms: int, checkpoint: int, tmp_path: Path) -> None:
    """The cleaned part is cleaned again: segments are joined, tombstones and markers removed, horizons set."""
    want = LAST / f"{topic}-0"
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=1500, index_interval_bytes=100, delete_retention_ms=3000
    )
    active = max(path.name[:20] for path in want.glob("*.log"))
    sources = [path for path in want.iterdir() if path.name.endswith(".deleted")]
    sources += [path for path in want.iterdir() if path.name.startswith(active) or path.suffix == ".snapshot"]
    log = recorded_log(tmp_path / want.name, sources, config, now_ms)
    check_against(want, log, now_ms, checkpoint, same_bytes=True)
