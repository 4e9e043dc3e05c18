"""A segment whose offsets are too far apart, as a cleaner of an old Apache Kafka left it, is split at the start."""

from pathlib import Path

import pytest

from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import INT_MAX, LogConfig
from storage.recovery.loading import load_log
from tests.support.disk_doubles.failing_fs import Died, FailingFileSystem
from tests.support.log_rules import check_rules
from tests.support.logs import T0, append, batch, close, crash, end, idempotent, open_log

#: The base offsets of the batches: offsets for three segments.
OFFSETS = (0, 1, 2, INT_MAX - 1, INT_MAX + 1, INT_MAX + 2, 2 * INT_MAX, 2 * INT_MAX + 2, 2 * INT_MAX + 3)
SPLIT = [0, INT_MAX + 1, 2 * INT_MAX + 2]
CONFIG = LogConfig(index_interval_bytes=100)


def at(offset: int, records: bytes | bytearray) -> bytes:
    """Return a batch with that base offset, which its checksum does not cover."""
    return offset.to_bytes(8, "big") + bytes(records[8:])


def overlong(root: Path, *, clean: bool, following: bool) -> Path:
    """A log whose segment at 0 has all of OFFSETS, the last two in an aborted transaction; `following` adds another."""
    log = open_log(root, CONFIG)
    for number in range(7):
        append(log, idempotent(number, leader_epoch=number // 4), leader_epoch=number // 4)
    append(log, idempotent(0, producer_id=9, transactional=True), leader_epoch=1)
    end(log, commit=False, producer_id=9, leader_epoch=1)
    path = Path(log.segments[0].log.path)
    (close if clean else crash)(log)
    data, whole, size = path.read_bytes(), b"", 0
    for offset in OFFSETS:
        length = 12 + int.from_bytes(data[size + 8 : size + 12], "big")
        whole += at(offset, data[size : size + length])
        size += length
    path.write_bytes(whole)
    for snapshot in path.parent.glob("*.snapshot"):
        snapshot.unlink()
    (path.parent / "leader-epoch-checkpoint").unlink()
    if following:
        (path.parent / f"{OFFSETS[-1] + 1:020d}.log").write_bytes(at(OFFSETS[-1] + 1, batch(b"behind")))
    return path


def opened(path: Path, fs: FileSystem = LOCAL, *, clean: bool = False) -> PartitionLog:
    directory = LogDirectory(str(path.parent.parent), fs)
    return load_log(directory, StoredLog(str(path.parent), "orders", 0, CONFIG, T0, clean=clean))


@pytest.mark.parametrize("following", [False, True])
def test_overlong_segment_is_split_after_a_crash(following: bool, tmp_path: Path) -> None:
    """Nothing is cut off and offsets are kept; each segment extends as far as its indexes allow."""
    path = overlong(tmp_path, clean=False, following=following)
    before = path.read_bytes()
    log = opened(path)
    assert [record.offset for record in check_rules(log)][:9] == list(OFFSETS)
    assert log.segments.base_offsets[:3] == SPLIT
    assert log.log_end_offset == OFFSETS[-1] + 1 + following
    files = [path.parent / f"{offset:020d}.log" for offset in SPLIT]
    assert b"".join(file.read_bytes() for file in files) == before
    assert sum(file.stat().st_size for file in files) + following * len(batch(b"behind")) == log.size_bytes
    assert not [each.name for each in path.parent.iterdir() if each.name.endswith((".corrupt", ".swap", ".cleaned"))]
    assert log.leader_epochs.entries == ((0, 0), (1, OFFSETS[4]))
    assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == [OFFSETS[7]]
    assert log.recovery_point == 0
    assert append(log, batch(b"next")) == OFFSETS[-1] + 1 + following


def test_overlong_last_segment_is_split_after_a_clean_stop(tmp_path: Path) -> None:
    """Its end is read and found too far away."""
    log = opened(overlong(tmp_path, clean=True, following=False), clean=True)
    assert [record.offset for record in check_rules(log)] == list(OFFSETS)
    assert log.segments.base_offsets == SPLIT
    assert log.recovery_point == 0, "the new files are to be forced to the disk"


def test_flipped_bit_of_a_base_offset_is_not_split(tmp_path: Path) -> None:
    """R4: decreasing offsets after it distinguish the two."""
    log = open_log(tmp_path, CONFIG)
    for number in range(3):
        append(log, batch(b"%d" % number))
    crash(log)
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    again = opened(path)
    assert (again.log_end_offset, len(again.segments)) == (1, 1)
    assert len(list(path.parent.glob("*.corrupt"))) == 1


def test_torn_tail_of_an_overlong_segment_is_cut_off(tmp_path: Path) -> None:
    """The whole batches are split and kept, whatever follows them."""
    path = overlong(tmp_path, clean=False, following=False)
    path.write_bytes(path.read_bytes()[:-1])
    log = opened(path)
    assert [record.offset for record in check_rules(log)] == list(OFFSETS[:-1])
    assert len(list(path.parent.glob("*.corrupt"))) == 1


def test_crash_at_any_call_of_a_split_loses_nothing(tmp_path: Path) -> None:
    """R1: the old segment or the new ones."""
    for call in range(1, 1000):
        path = overlong(tmp_path / str(call), clean=False, following=False)
        fs = FailingFileSystem(call, dies=True)
        try:
            opened(path, fs)
        except Died:
            log = opened(path)
            assert [record.offset for record in check_rules(log)] == list(OFFSETS), fs.calls
            assert log.segments.base_offsets == SPLIT
            crash(log)
        else:
            break
    assert call > 50
