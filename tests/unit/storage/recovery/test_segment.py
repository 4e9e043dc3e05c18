"""Recovery reports each cut with its position and reason, and keeps the bytes in a file."""

import errno
from pathlib import Path

import pytest

from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.recovery.loading import load_log
from storage.recovery.segment import Cut
from storage.segment.scan import WHOLE_WINDOW
from tests.support.logs import T0, append, batch, crash, open_log, read_all, sized


def recovered(root: Path, config: LogConfig, fs: FileSystem = LOCAL) -> tuple[PartitionLog, list[Cut]]:
    cuts: list[Cut] = []
    directory = LogDirectory(str(root), fs)
    log = load_log(directory, StoredLog(f"{root}/orders-0", "orders", 0, config, T0), cuts)
    return log, cuts


def three_segments(root: Path) -> tuple[LogConfig, list[Path]]:
    """Segments of two batches of 100 bytes each: offsets 0-1, 2-3, 4-5."""
    config = LogConfig(segment_bytes=200)
    log = open_log(root, config)
    for _ in range(6):
        append(log, sized(100))
    crash(log)
    return config, [Path(segment.log.path) for segment in log.segments]


def test_undamaged_log_has_no_cut(tmp_path: Path) -> None:
    """Nothing is reported or kept."""
    config, _ = three_segments(tmp_path)
    log, cuts = recovered(tmp_path, config)
    assert (log.log_end_offset, cuts) == (6, [])
    assert list(tmp_path.rglob("*.corrupt")) == []


def test_flipped_bit_cuts_the_log_and_keeps_the_rest_aside(tmp_path: Path) -> None:
    """The rest of the segment and later segments are kept byte for byte under names that the broker ignores."""
    config, paths = three_segments(tmp_path)
    data = bytearray(paths[1].read_bytes())
    data[180] ^= 4
    paths[1].write_bytes(data)
    third = paths[2].read_bytes()
    log, cuts = recovered(tmp_path, config)
    assert log.log_end_offset == 3
    assert [(str(paths[1]), 100, 100), (str(paths[2]), 0, 200)] == [(c.path, c.position, c.size_bytes) for c in cuts]
    assert cuts[0].reason == "the checksum of the batch at byte 100 is wrong"
    assert bytes(data[100:]) == Path(f"{paths[1]}.100.corrupt").read_bytes()
    assert third == Path(f"{paths[2]}.0.corrupt").read_bytes()
    assert not paths[2].exists()
    assert not paths[2].with_suffix(".index").exists()
    line = str(cuts[0])
    assert all(part in line for part in (str(paths[1]), "100 bytes from byte 100", "checksum", ".100.corrupt"))
    assert append(log, batch(b"goes on")) == 3
    crash(log)
    again, more = recovered(tmp_path, config)
    assert [record.offset for record in read_all(again)] == [0, 1, 2, 3]
    assert more == []
    assert len(list(tmp_path.rglob("*.corrupt"))) == 2


def test_second_cut_at_a_position_keeps_the_first(tmp_path: Path) -> None:
    """The bytes of both are kept, each once, although a start may be interrupted after it has copied them."""
    config, paths = three_segments(tmp_path)
    good = paths[2].read_bytes()
    for garbage in (b"first" * 30, b"second" * 20, b"second" * 20):
        paths[2].write_bytes(good + garbage)
        recovered(tmp_path, config)
    names = [f"{paths[2]}.200.corrupt", f"{paths[2]}.200.2.corrupt"]
    assert [Path(name).read_bytes() for name in names] == [b"first" * 30, b"second" * 20]
    paths[1].write_bytes(b"damaged")
    Path(f"{paths[2]}.0.corrupt").write_bytes(b"of an earlier start")
    _, cuts = recovered(tmp_path, config)
    assert cuts[1].kept == f"{paths[2]}.0.2.corrupt"
    assert Path(cuts[1].kept).read_bytes() == good
    assert Path(f"{paths[2]}.0.corrupt").read_bytes() == b"of an earlier start"
    assert len(list(tmp_path.rglob("*.corrupt"))) == 5


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (bytes(61), "invalid length 0"),
        (sized(100)[:-1], "the last batch is incomplete"),
        (sized(100), "a batch begins at offset 0, below the expected 6"),
        (bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\2" + bytes(60), "the last batch is incomplete"),
    ],
)
def test_reason_names_the_damage(garbage: bytes, reason: str, tmp_path: Path) -> None:
    """Zeros, a torn batch, decreasing offsets, a wrong length."""
    config, paths = three_segments(tmp_path)
    with paths[-1].open("ab") as file:
        file.write(garbage)
    log, (cut,) = recovered(tmp_path, config)
    assert (6, 200, len(garbage)) == (log.log_end_offset, cut.position, cut.size_bytes)
    assert reason in cut.reason


def test_zeros_are_not_kept(tmp_path: Path) -> None:
    """A preallocated tail, or what a power failure leaves, has no value for anyone."""
    config, paths = three_segments(tmp_path)
    with paths[-1].open("ab") as file:
        file.truncate(3 * WHOLE_WINDOW)
    _, (cut,) = recovered(tmp_path, config)
    assert (cut.kept, cut.not_kept_reason) == (None, "all bytes are zero")
    assert list(tmp_path.rglob("*.corrupt")) == []
    assert paths[-1].stat().st_size == 200


def test_long_tail_is_kept_whole_with_zeros_as_holes(tmp_path: Path) -> None:
    """It is copied in pieces; the zeros of a preallocated file need no space."""
    config, paths = three_segments(tmp_path)
    with paths[-1].open("r+b") as file:
        file.seek(200 + 2 * WHOLE_WINDOW)
        file.write(b"something")
        file.truncate(5 * WHOLE_WINDOW)
    _, (cut,) = recovered(tmp_path, config)
    assert cut.kept is not None
    kept = Path(cut.kept).read_bytes()
    assert 5 * WHOLE_WINDOW - 200 == len(kept) == cut.size_bytes
    assert kept.strip(b"\0") == b"something"
    assert kept.index(b"something") == 2 * WHOLE_WINDOW
    assert Path(cut.kept).stat().st_blocks * 512 <= WHOLE_WINDOW + 8192


class FullDisk(FileSystem):
    """Has no space for copies."""

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        if path.endswith(".corrupt"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open_write(path, create=create, empty=empty)


def test_full_disk_keeps_no_copy_and_the_log_starts(tmp_path: Path) -> None:
    """The loss is reported, and the partition does not go offline for it."""
    config, paths = three_segments(tmp_path)
    paths[-1].write_bytes(paths[-1].read_bytes()[:-1])
    log, (cut,) = recovered(tmp_path, config, FullDisk())
    assert (log.log_end_offset, cut.kept, cut.not_kept_reason) == (5, None, "No space left on device")
    assert "not kept: No space left" in str(cut)


def test_batches_larger_than_the_window_are_checked(tmp_path: Path) -> None:
    """Between small ones, and with damage at their very end."""
    config = LogConfig(max_message_bytes=1 << 30)
    log = open_log(tmp_path, config)
    for size in (100, WHOLE_WINDOW + 1000, 200, 3 * WHOLE_WINDOW):
        append(log, sized(size))
    crash(log)
    again, cuts = recovered(tmp_path, config)
    assert (again.log_end_offset, cuts) == (4, [])
    crash(again)
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again, (cut,) = recovered(tmp_path, config)
    assert (again.log_end_offset, cut.position) == (3, WHOLE_WINDOW + 1300)


def test_a_log_is_recovered_with_a_single_open_file(tmp_path: Path) -> None:
    """Rule H1: indexes evict the log from the open files between two reads of it."""
    config = LogConfig(index_interval_bytes=0)
    log = open_log(tmp_path, config)
    for _ in range(100):
        append(log, sized(WHOLE_WINDOW // 50))
    crash(log)
    directory = LogDirectory(str(tmp_path), files=OpenFiles(LOCAL, 1))
    cuts: list[Cut] = []
    again = load_log(directory, StoredLog(log.path, "orders", 0, config, T0), cuts)
    assert (again.log_end_offset, cuts) == (100, [])
    assert again.segments[-1].offset_index.entries == 99


def test_line_about_an_empty_segment() -> None:
    """No bytes were cut off, so the line mentions none."""
    cut = Cut("t-0/00000000000000000100.log", 0, 0, "the log ends before it", None, "it was empty")

    assert str(cut) == "t-0/00000000000000000100.log: the empty segment was removed: the log ends before it"
