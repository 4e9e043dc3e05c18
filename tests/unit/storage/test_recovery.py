"""What a start makes of a directory: after a clean stop or a crash, with files missing, torn, or full of garbage."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.log_config import LONG_MAX, LogConfig
from storage.log_directory import LogDirectory
from storage.partition_log import PartitionLog
from storage.producer_snapshot import read_snapshot
from storage.recovery import load_log
from tests.support.dump_log import LOGS
from tests.support.logs import T0, append, batch, close, crash, end, idempotent, open_log, read_all
from tests.support.recorded_logs import NOW_MS, copied

#: Small segments and indexes, so that a handful of batches makes several of each.
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, segment_index_bytes=512)


def recovered(path: Path, *, recovery_point: int = 0) -> PartitionLog:
    """A recorded log after our recovery, with the configuration that it was written with."""
    return load_log(
        LogDirectory(str(path.parent)),
        str(path),
        path.name.rpartition("-")[0],
        0,
        LogConfig(segment_bytes=3000, index_interval_bytes=100, segment_index_bytes=512),
        now_ms=NOW_MS,
        clean=False,
        recovery_point=recovery_point,
    )


@pytest.mark.parametrize(("kind", "end_offset"), [("unclean", 125), ("unclean-crc", 66)])
def test_damaged_log_is_recovered_to_the_bytes_that_kafka_recovers(kind: str, end_offset: int, tmp_path: Path) -> None:
    """A torn tail, a missing index, a flipped bit, an open transaction: records and indexes as Kafka leaves them."""
    log = recovered(copied(LOGS / f"v4.3.1-{kind}-2-damaged" / f"{kind}-0", tmp_path))
    assert end_offset == log.log_end_offset
    close(log)
    theirs = LOGS / f"v4.3.1-{kind}-3-recovered" / f"{kind}-0"
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        expected = {path.name: path.read_bytes() for path in theirs.glob(f"*{suffix}")}
        assert expected == {path.name: path.read_bytes() for path in Path(log.path).glob(f"*{suffix}")}


def test_recovered_log_knows_its_producers_as_kafka_does(tmp_path: Path) -> None:
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
    """Some 20 batches over several segments: plain, idempotent, transactional, aborted."""
    log = open_log(root, config)
    for number in range(6):
        append(log, batch(b"plain", b"%d" % number, timestamp=T0 + 1000 * number))
        append(log, idempotent(2 * number, 2, timestamp=T0 + 1000 * number + 1))
        append(log, idempotent(number, producer_id=8, transactional=True, timestamp=T0 + 1000 * number + 2))
        if number % 2:
            end(log, commit=number == 3, producer_id=8)
    return log


def state_of(log: PartitionLog) -> object:
    """What must be the same after a restart."""
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
def test_reopened_log_is_what_it_was(clean: bool, tmp_path: Path) -> None:
    """Offsets, records, producers, transactions, epochs, look-ups by time: after a clean stop and after a crash."""
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
    """Rule R3: segments before the recovery point are not read; damage there stays unseen."""
    log = filled(tmp_path)
    second = log.segments[1]
    crash(log)
    path = Path(second.log.path)
    path.write_bytes(b"\xff" * len(path.read_bytes()))
    again = open_log(tmp_path, SMALL, recovery_point=log.segments[2].base_offset)
    assert log.log_end_offset == again.log_end_offset
    assert len(log.segments) == len(again.segments)


def test_torn_tail_keeps_exactly_the_whole_batches(tmp_path: Path) -> None:
    """Rule R4: wherever the last segment is cut, the batches before the cut are kept, and producers agree with them."""
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
def test_garbage_behind_the_end_is_cut_off(garbage: str, tmp_path: Path) -> None:
    """A preallocated or half-written tail is no batch."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    with open(log.segments[-1].log.path, "ab") as file:
        file.write(bytes(300) if garbage == "zeros" else random.Random(1).randbytes(300))
    assert expected == state_of(open_log(tmp_path, SMALL))


def test_corrupt_batch_takes_what_follows_it_along(tmp_path: Path) -> None:
    """Rule R4: later segments go too, as offsets must not have holes that nobody made."""
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
    """The checksum does not cover the base offset: offsets that go back are damage too."""
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
    """Rule R6: each index, snapshot or epoch file, one by one, after a clean stop and after a crash."""
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
def test_damaged_transaction_index_is_made_anew(clean: bool, damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Aborted transactions are found again in the records."""
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
    """The records alone are enough."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    for path in Path(log.path).iterdir():
        if path.suffix != ".log":
            path.unlink()
    assert expected == state_of(open_log(tmp_path, SMALL))


def test_leftovers_of_deletion_and_cleaning_go(tmp_path: Path) -> None:
    """Rule R1: .deleted, .cleaned and .tmp files are removed; orphaned indexes too."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    for name in (f"{0:020d}.log.deleted", f"{5:020d}.log.cleaned", f"{5:020d}.index.cleaned", f"{999:020d}.index"):
        (Path(log.path) / name).write_bytes(b"left over")
    (Path(log.path) / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n")
    again = open_log(tmp_path, SMALL)
    assert expected == state_of(again)
    names = [path.name for path in Path(log.path).iterdir()]
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "999" in name]


def test_interrupted_swap_is_finished(tmp_path: Path) -> None:
    """Rule R1: a .swap segment takes the place of those whose offsets it covers."""
    log = filled(tmp_path)
    expected = read_all(log)
    crash(log)
    first, second = log.segments[0], log.segments[1]
    merged = Path(first.log.path).read_bytes() + Path(second.log.path).read_bytes()
    Path(first.log.path + ".swap").write_bytes(merged)
    again = open_log(tmp_path, SMALL, clean=True)
    assert len(log.segments) - 1 == len(again.segments)
    assert expected == read_all(again)
    assert merged == Path(again.segments[0].log.path).read_bytes()


def test_swap_of_an_unfinished_split_is_dropped(tmp_path: Path) -> None:
    """Rule R1: with a .cleaned file below it, a .swap file is part of something that was not ready."""
    log = filled(tmp_path)
    expected = state_of(log)
    crash(log)
    Path(log.segments[1].log.path + ".swap").write_bytes(b"incomplete")
    Path(log.segments[0].log.path + ".cleaned").write_bytes(b"incomplete")
    assert expected == state_of(open_log(tmp_path, SMALL))


def test_log_that_ends_below_its_start_goes_on_at_its_start(tmp_path: Path) -> None:
    """Records were deleted up to an offset that the files do not reach any more: no offset is given twice."""
    log = filled(tmp_path)
    crash(log)
    again = open_log(tmp_path, SMALL, log_start_offset=1000)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1000)
    assert append(again, batch()) == 1000


def test_foreign_files_of_the_metadata_log_are_left_alone(tmp_path: Path) -> None:
    """Snapshots and the quorum state belong to others."""
    log = filled(tmp_path)
    crash(log)
    names = ("quorum-state", f"{10:020d}-0000000001.checkpoint", f"{5:020d}-0000000001.checkpoint.deleted")
    for name in names:
        (Path(log.path) / name).write_bytes(b"x")
    open_log(tmp_path, SMALL)
    assert all((Path(log.path) / name).read_bytes() == b"x" for name in names)


def test_recovery_reads_batches_whose_records_lie(tmp_path: Path) -> None:
    """Rule R5: the header and checksum are right, the records are noise: the log has the batch, and goes on."""
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
