"""Opening a directory after a clean shutdown or a crash, with missing, torn and damaged files."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LONG_MAX, LogConfig
from storage.producers.snapshot import read_snapshot
from storage.recovery.loading import load_log
from tests.support.dump_log import LOGS
from tests.support.logs import T0, append, batch, close, crash, end, idempotent, open_log, read_all
from tests.support.recorded_logs import NOW_MS, copied

#: Small segments and indexes, so that a few batches create several of each.
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, segment_index_bytes=512)


def recovered(path: Path, *, recovery_point: int = 0) -> PartitionLog:
    """Recover a recorded log with the configuration that it was written with."""
    topic = path.name.rpartition("-")[0]
    config = LogConfig(segment_bytes=3000, index_interval_bytes=100, segment_index_bytes=512)
    stored = StoredLog(str(path), topic, 0, config, NOW_MS, recovery_point=recovery_point)
    return load_log(LogDirectory(str(path.parent)), stored)


@pytest.mark.parametrize(("kind", "end_offset"), [("unclean", 125), ("unclean-crc", 66)])
def test_recovery_gives_the_same_bytes_as_kafka(kind: str, end_offset: int, tmp_path: Path) -> None:
    """A torn tail, a missing index, a flipped bit, an open transaction: records and indexes equal Kafka's."""
    log = recovered(copied(LOGS / f"v4.3.1-{kind}-2-damaged" / f"{kind}-0", tmp_path))
    assert end_offset == log.log_end_offset
    close(log)
    theirs = LOGS / f"v4.3.1-{kind}-3-recovered" / f"{kind}-0"
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        expected = {path.name: path.read_bytes() for path in theirs.glob(f"*{suffix}")}
        assert expected == {path.name: path.read_bytes() for path in Path(log.path).glob(f"*{suffix}")}


def test_recovery_gives_the_same_producers_as_kafka(tmp_path: Path) -> None:
    """The snapshot at the recovered end has the same producers, with their open transaction."""
    log = recovered(copied(LOGS / "v4.3.1-unclean-2-damaged" / "unclean-0", tmp_path))
    theirs = read_snapshot(LOCAL, str(LOGS / "v4.3.1-unclean-3-recovered/unclean-0/00000000000000000125.snapshot"))
    for entry in theirs:
        ours = log.producer_state.producers[entry.producer_id]
        assert (entry.producer_epoch, entry.last_sequence, entry.last_offset, entry.transaction_offset) == (
            ours.producer_epoch,
            ours.last_sequence,
            ours.last_offset,
            ours.transaction_offset,
        )


def filled(root: Path, config: LogConfig = SMALL) -> PartitionLog:
    """About 20 batches in several segments: plain, idempotent, transactional, aborted."""
    log = open_log(root, config)
    for number in range(6):
        append(log, batch(b"plain", b"%d" % number, timestamp=T0 + 1000 * number))
        append(log, idempotent(2 * number, 2, timestamp=T0 + 1000 * number + 1))
        append(log, idempotent(number, producer_id=8, transactional=True, timestamp=T0 + 1000 * number + 2))
        if number % 2:
            end(log, commit=number == 3, producer_id=8)
    return log


def state_of(log: PartitionLog) -> object:
    """Return everything that a restart must preserve."""
    producers = {
        entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.last_offset, entry.transaction_offset)
        for entry in log.producer_state.producers.values()
    }
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        producers,
        read_all(log),
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        log.leader_epochs.entries,
        [log.offset_for_timestamp(T0 + 500 * step) for step in range(14)],
        log.max_timestamp(),
    )


@pytest.mark.parametrize("clean", [True, False])
def test_reopened_log_is_unchanged(clean: bool, tmp_path: Path) -> None:
    """Offsets, records, producers, transactions, epochs, look-ups by time; after a shutdown and a crash."""
    log = filled(tmp_path)
    expected = state_of(log)
    if clean:
        close(log)
    else:
        crash(log)
    again = open_log(tmp_path, SMALL, clean=clean)
    assert expected == state_of(again)
    assert (again.log_end_offset if clean else 0) == again.recovery_point
    assert append(again, batch(b"next")) == 33


def test_crash_recovers_only_from_the_recovery_point_on(tmp_path: Path) -> None:
    """Rule R3: segments before the recovery point are not read, so damage there is not detected."""
    log = filled(tmp_path)
    second = log.segments[1]
    crash(log)
    path = Path(second.log.path)
    path.write_bytes(b"\xff" * len(path.read_bytes()))
    again = open_log(tmp_path, SMALL, recovery_point=log.segments[2].base_offset)
    assert log.log_end_offset == again.log_end_offset
    assert len(log.segments) == len(again.segments)


def test_unflushed_segment_of_zeros_is_cut_off(tmp_path: Path) -> None:
    """Rules R4, P8: the search for producers stops at the recovery point, because later batches were not checked."""
    log = filled(tmp_path)
    second = log.segments[1]
    crash(log)
    # a power failure has lost their names, and the pages of the records
    for snapshot in Path(log.path).glob("*.snapshot"):
        snapshot.unlink()
    path = Path(second.log.path)
    path.write_bytes(bytes(len(path.read_bytes())))
    again = open_log(tmp_path, SMALL, recovery_point=second.base_offset)
    assert again.log_end_offset == second.base_offset
    assert read_all(again) == read_all(open_log(tmp_path, SMALL))
    assert again.producer_state.producers[7].last_offset < second.base_offset


def test_preallocated_segment_flushed_before_its_truncation(tmp_path: Path) -> None:
    """R4: the flush reached the roll but not its truncation, so the file may have its full size again."""
    config = LogConfig(segment_bytes=400, preallocate=True)
    log = open_log(tmp_path, config)
    for number in range(3):
        append(log, batch(b"%d" % number))
    log.roll(3, T0)
    crash(log)
    path = Path(log.segments[0].log.path)
    size = path.stat().st_size
    assert size < 400
    os.truncate(path, 400)
    again = open_log(tmp_path, config, recovery_point=3)
    assert (path.stat().st_size, again.log_end_offset) == (size, 3)
    assert [record.value for record in read_all(again)] == [b"0", b"1", b"2"]
    assert append(again, batch()) == 3


def test_txn_index_is_removed_after_its_records(tmp_path: Path) -> None:
    """R1: after a crash in between, a power failure must not bring the records back without their index."""
    log = filled(tmp_path)
    crash(log)
    orphan = next(Path(log.path).glob("*.txnindex"))
    orphan.with_suffix(".log").unlink()
    synced = []

    class Watched(FileSystem):
        def sync_path(self, path: str) -> None:
            synced.append((path, orphan.exists()))

    open_log(tmp_path, SMALL, fs=Watched())
    assert synced == [(log.path, True)]
    assert not orphan.exists()


def test_torn_tail_keeps_exactly_the_whole_batches(tmp_path: Path) -> None:
    """Rule R4: for any cut of the last segment the whole batches before it are kept, and producers agree with them."""
    log = filled(tmp_path, LogConfig(index_interval_bytes=100))
    crash(log)
    path = Path(log.segments[-1].log.path)
    data = path.read_bytes()
    ends = [0]
    for entry in log.segments[-1].scan(0):
        ends.append(entry.position + entry.size_bytes)
    random.seed(4)
    for size in sorted({*ends, *(random.randrange(len(data)) for _ in range(40))}):
        path.write_bytes(data[:size])
        again = open_log(tmp_path, LogConfig(index_interval_bytes=100))
        kept = max(position for position in ends if position <= size)
        assert kept == path.stat().st_size
        assert kept == again.segments[-1].size_bytes
        offsets = [record.offset for record in read_all(again)]
        assert list(range(again.log_end_offset)) == offsets
        producer = again.producer_state.producers.get(7)
        sequences = [record.sequence for record in read_all(again) if (record.value or b"").isdigit()]
        if producer is not None:
            assert max(producer.last_sequence, 0) <= max(sequences)
        crash(again)


@pytest.mark.parametrize("garbage", ["zeros", "noise"])
def test_garbage_after_the_end_is_cut_off(garbage: str, tmp_path: Path) -> None:
    """A preallocated or half-written tail is not a batch."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    with open(log.segments[-1].log.path, "ab") as file:
        file.write(bytes(300) if garbage == "zeros" else random.Random(1).randbytes(300))
    assert expected == state_of(open_log(tmp_path, SMALL))


def test_bytes_after_the_end_are_not_appended_to(tmp_path: Path) -> None:
    """Batches after it would be unreachable, and the next crash would cut them off."""
    log = filled(tmp_path)
    end = log.log_end_offset
    close(log)
    with open(log.segments[-1].log.path, "ab") as file:
        file.write(b"\x01" * 100)
    again = open_log(tmp_path, SMALL, clean=True, recovery_point=end)
    assert append(again, batch(b"next")) == end
    crash(again)
    assert open_log(tmp_path, SMALL, recovery_point=end).log_end_offset == end + 1


@pytest.mark.parametrize("flipped", [1, 4, 64])
def test_damaged_checkpoint_does_not_move_the_log_end(flipped: int, tmp_path: Path) -> None:
    """After a clean shutdown the last producer snapshot is at the log's end too."""
    log = filled(tmp_path)
    end, expected = log.log_end_offset, read_all(log)
    close(log)
    again = open_log(tmp_path, SMALL, clean=True, recovery_point=end ^ flipped)
    assert (again.log_end_offset, read_all(again)) == (end, expected)
    assert append(again, batch(b"next")) == end


def test_offsets_of_lost_records_are_not_assigned_again(tmp_path: Path) -> None:
    """The last batch is missing: snapshot and checkpoint are beyond the log's end. The loss is reported."""
    log = filled(tmp_path)
    append(log, batch(b"one more"))
    end, last = log.log_end_offset, log.segments[-1]
    *_, entry = last.scan(0)
    assert entry.position > 0
    close(log)
    os.truncate(last.log.path, entry.position)
    again = open_log(tmp_path, SMALL, clean=True, recovery_point=end)
    assert (
        f"at offset {end - 1}, but the log had ended at {end}: the records in between are lost"
        in again.directory.remarks[-1]
    )
    assert append(again, batch(b"next")) == end


def test_corrupt_batch_ends_the_log(tmp_path: Path) -> None:
    """Rule R4: later segments are removed too, because offsets must not have unexplained gaps."""
    log = filled(tmp_path)
    crash(log)
    assert len(log.segments) > 3
    path = Path(log.segments[1].log.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = open_log(tmp_path, SMALL)
    assert len(again.segments) == 2
    assert log.segments[1].base_offset < again.log_end_offset < log.segments[2].base_offset
    assert again.log_end_offset == again.producer_state.end_offset
    assert len(list(Path(again.path).glob("*.log"))) == 2


def test_batch_with_a_wrong_offset_ends_the_log(tmp_path: Path) -> None:
    """The checksum does not cover the base offset: decreasing offsets are damage too."""
    log = open_log(tmp_path, SMALL)
    for number in range(3):
        append(log, batch(b"%d" % number))
    crash(log)
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[2 * len(data) // 3 : 2 * len(data) // 3 + 8] = bytes(8)
    path.write_bytes(data)
    assert open_log(tmp_path, SMALL).log_end_offset == 2


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def scramble(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


DERIVED = ["*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"]


@pytest.mark.parametrize("damage", [delete, truncate, empty, zero, scramble])
@pytest.mark.parametrize("pattern", DERIVED)
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_small_file_loses_nothing(
    clean: bool, pattern: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """Rule R6: each index, snapshot and epoch file in turn, after a clean shutdown and after a crash."""
    log = filled(tmp_path)
    expected = state_of(log)
    if clean:
        close(log)
    else:
        crash(log)
    for path in sorted(Path(log.path).glob(pattern)):
        damage(path)
        again = open_log(tmp_path, SMALL, clean=clean)
        assert expected == state_of(again), path.name
        if clean:
            close(again)
        else:
            crash(again)


@pytest.mark.parametrize("damage", [truncate, scramble, zero])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_transaction_index_is_rebuilt(clean: bool, damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Aborted transactions are restored from the records."""
    log = filled(tmp_path)
    expected = log.aborted_transactions(0, 100)
    assert len(expected) == 2
    if clean:
        close(log)
    else:
        crash(log)
    for path in Path(log.path).glob("*.txnindex"):
        damage(path)
    assert expected == open_log(tmp_path, SMALL, clean=clean).aborted_transactions(0, 100)


def test_all_small_files_missing_after_a_crash(tmp_path: Path) -> None:
    """The records alone are sufficient."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    for path in Path(log.path).iterdir():
        if path.suffix != ".log":
            path.unlink()
    assert expected == state_of(open_log(tmp_path, SMALL))


def test_log_that_ends_below_its_start_continues_there(tmp_path: Path) -> None:
    """Records were deleted up to an offset beyond the files; no offset is assigned twice."""
    log = filled(tmp_path)
    crash(log)
    again = open_log(tmp_path, SMALL, log_start_offset=1000)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1000)
    assert append(again, batch()) == 1000


def test_recovery_keeps_batches_with_invalid_records(tmp_path: Path) -> None:
    """Rule R5: header and checksum are right, but the records are noise: the batch is kept and the log continues."""
    from protocol.records.batch import HEADER_SIZE, compute_crc

    log = open_log(tmp_path, SMALL)
    lying = batch(b"x" * 50, producer_id=3, producer_epoch=0, base_sequence=0)
    lying[HEADER_SIZE:] = b"\xff" * (len(lying) - HEADER_SIZE)
    lying[17:21] = compute_crc(lying, 0, len(lying)).to_bytes(4, "big")
    append(log, lying)
    append(log, batch(b"after"))
    crash(log)
    again = open_log(tmp_path, SMALL)
    assert again.log_end_offset == 2
    assert [record.value for record in read_all(again, 1)] == [b"after"]
    assert again.max_timestamp().timestamp < LONG_MAX  # type: ignore[union-attr]


def test_valid_snapshots_are_left_unchanged(tmp_path: Path) -> None:
    """Recovery writes wrong snapshots again and removes those that no log of this length has."""
    config = LogConfig(segment_bytes=300)
    log = open_log(tmp_path, config)
    for sequence in range(9):
        append(log, idempotent(sequence))
    log.take_snapshot()
    crash(log)
    right, wrong, last = sorted((tmp_path / "orders-0").glob("*.snapshot"))[-3:]
    expected = wrong.read_bytes()
    wrong.write_bytes(right.read_bytes())
    beyond = last.with_name(f"{last.stem[:-2]}99.snapshot")
    beyond.write_bytes(expected)
    before = [path.stat().st_ino for path in (right, last)], right.stat().st_mtime_ns, last.stat().st_mtime_ns
    crash(open_log(tmp_path, config))
    assert wrong.read_bytes() == expected
    assert before == ([path.stat().st_ino for path in (right, last)], right.stat().st_mtime_ns, last.stat().st_mtime_ns)
    assert not beyond.exists()
