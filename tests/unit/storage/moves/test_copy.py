"""Copies of logs in other directories: round by round, from any offset, of every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.append.header_validation import AppendOrigin
from storage.errors import CorruptFile, UnexpectedAppendOffset
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.moves.copy import (
    BatchRange,
    CopyJob,
    CopyProgress,
    append_rest,
    batch_head,
    copy_batches,
    first_offset,
    last_batch,
    pieces_from,
)
from storage.recovery.loading import load_log
from tests.support.logs import T0, append, batch, idempotent, marker, open_log, read_all
from tests.support.recorded_logs import copied as copied_logs

TOPIC_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
FUTURE = f"orders-0.{'ab' * 16}-future"


def future(home: Path, config: LogConfig = SMALL) -> StoredLog:
    return StoredLog(f"{home}/{FUTURE}", "orders", 0, config, T0)


def rounds(log: PartitionLog, home: Path, most_bytes: int = 1 << 30) -> CopyProgress:
    """Copy until nothing is left, asking for pieces first."""
    copied: CopyProgress | None = None
    while True:
        pieces = () if copied is None else pieces_from(log, copied.end_offset, most_bytes)
        if copied is not None and not pieces:
            return copied
        first = first_offset(log) if copied is None or not copied.size_bytes else 0
        stored = future(home, log.config)._replace(clean=copied is not None, log_start_offset=first)
        before, copied = copied, copy_batches(CopyJob(str(home), stored, TOPIC_ID, pieces, most_bytes))
        assert before is None or copied.end_offset > before.end_offset


def opened(home: Path, config: LogConfig = SMALL) -> PartitionLog:
    return load_log(LogDirectory(str(home)), future(home, config)._replace(clean=True))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "other"
    made.mkdir()
    return made


@pytest.mark.parametrize("most_bytes", [1, 150, 1 << 20])
def test_copy_equals_the_log(tmp_path: Path, home: Path, most_bytes: int) -> None:
    """Records, epochs, producers, transactions and topic id, for any size of a round."""
    log = open_log(tmp_path, SMALL)
    for sequence in range(12):
        append(log, idempotent(sequence, transactional=sequence > 8), leader_epoch=sequence // 5)
    append(log, marker(commit=False), leader_epoch=2, origin=AppendOrigin.COORDINATOR)
    append(log, batch(b"large", bytes(300)), leader_epoch=3)
    done = rounds(log, home, most_bytes)
    copy = opened(home)
    assert (done.end_offset, done.size_bytes) == (log.log_end_offset, log.size_bytes)
    assert read_all(copy) == read_all(log)
    assert copy.leader_epochs.entries == log.leader_epochs.entries
    assert copy.producer_state.producers.keys() == log.producer_state.producers.keys()
    assert copy.aborted_transactions(0, 99) == log.aborted_transactions(0, 99) != []
    assert copy.topic_id == TOPIC_ID
    assert last_batch(copy) == last_batch(log) != b""


def test_copy_begins_where_the_log_does(tmp_path: Path, home: Path) -> None:
    """It begins with the batch that contains the log start offset; readers cannot go below that offset."""
    log = open_log(tmp_path, SMALL)
    for number in range(10):
        append(log, batch(b"%d" % number, b"-", b"-"))
    log.delete_records(16)
    assert first_offset(log) == 15
    rounds(log, home)
    copy = opened(home)
    assert (copy.log_start_offset, copy.log_end_offset) == (15, 30)
    append_rest(copy, log, T0)
    assert copy.log_start_offset == 16


@pytest.mark.parametrize("count", [0, 4])
def test_copy_of_an_empty_log_keeps_its_offsets(tmp_path: Path, home: Path, count: int) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(count):
        append(log, batch())
    log.delete_records(count)
    done = rounds(log, home)
    assert done.end_offset == count
    copy = opened(home)
    append_rest(copy, log, T0)
    assert (copy.log_start_offset, copy.log_end_offset) == (count, count)


def test_rest_is_appended_to_an_open_copy(tmp_path: Path, home: Path) -> None:
    log = open_log(tmp_path, SMALL)
    append(log, batch(b"1"))
    rounds(log, home)
    for number in range(20):
        append(log, batch(b"%d" % number))
    copy = opened(home)
    append_rest(copy, log, T0)
    assert read_all(copy) == read_all(log)
    append(copy, batch(b"more"))
    with pytest.raises(UnexpectedAppendOffset):
        append_rest(copy, log, T0)


def test_old_formats_are_copied_unchanged(tmp_path: Path, home: Path) -> None:
    """Message sets v0 and v1 of every codec, byte for byte."""
    from tests.support.dump_log import LOGS

    source = copied_logs(LOGS / "v3.9.1-old-formats", tmp_path)
    manager = LogManager([str(source)])
    manager.lock()
    manager.load(lambda topic: LogConfig(), T0)
    logs = [log for log in manager.logs.values() if log.topic.startswith(("v0", "v1", "mixed")) and log.size_bytes]
    assert len(logs) > 10
    for number, log in enumerate(logs):
        own = home / str(number)
        own.mkdir()
        done = rounds(log, own, 9000)
        assert (done.end_offset, done.size_bytes) == (log.log_end_offset, log.size_bytes), log
        assert done.last_batch == last_batch(log)
        copy = opened(own, log.config)
        ours, theirs = (b"".join(Path(each.log.path).read_bytes() for each in one.segments) for one in (copy, log))
        assert ours == theirs
    manager.unlock()


def test_invalid_bytes_end_the_copy(tmp_path: Path, home: Path) -> None:
    log = open_log(tmp_path, SMALL)
    append(log, batch(bytes(100)))
    path = Path(log.active_segment.log.path)
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\x7f" + data[9:])
    piece = BatchRange(str(path), 0, len(data))
    job = CopyJob(str(home), future(home), None, (piece,), 1 << 20)
    with pytest.raises(CorruptFile, match="no batch at byte 0"):
        copy_batches(job)


def test_first_bytes_of_batches_distinguish_logs(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(8):
        append(log, batch(b"%d" % number, b"second"))
    heads = {batch_head(log, offset) for offset in range(16)}
    assert len(heads) == 8
    assert last_batch(log) == batch_head(log, 14) == batch_head(log, 15)
    assert batch_head(log, 16) == b""
