"""Interrupted operations are finished or undone at the next start."""

from __future__ import annotations

from pathlib import Path

from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.logs import append, crash, idempotent, open_log, read_all

SMALL = LogConfig(segment_bytes=400)


def filled(directory: Path) -> PartitionLog:
    """A log of several segments."""
    log = open_log(directory, SMALL)
    for sequence in range(20):
        append(log, idempotent(sequence))
    return log


def test_leftovers_of_deletion_and_cleaning_are_removed(tmp_path: Path) -> None:
    """Rule R1: .deleted, .cleaned and .tmp files are removed, and indexes without records."""
    log = filled(tmp_path)
    expected = read_all(log)
    crash(log)
    for name in (f"{0:020d}.log.deleted", f"{5:020d}.log.cleaned", f"{5:020d}.index.cleaned", f"{999:020d}.index"):
        (Path(log.path) / name).write_bytes(b"left over")
    (Path(log.path) / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n")
    again = open_log(tmp_path, SMALL)
    assert expected == read_all(again)
    names = [path.name for path in Path(log.path).iterdir()]
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "999" in name]


def test_interrupted_swap_is_finished(tmp_path: Path) -> None:
    """Rule R1: a .swap segment replaces the segments whose offsets it covers."""
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
    """Rule R1: a .cleaned file at a lower offset shows that other parts of the split were not ready."""
    log = filled(tmp_path)
    expected = read_all(log)
    crash(log)
    Path(log.segments[1].log.path + ".swap").write_bytes(b"incomplete")
    Path(log.segments[0].log.path + ".cleaned").write_bytes(b"incomplete")
    assert expected == read_all(open_log(tmp_path, SMALL))


def test_foreign_files_of_the_metadata_log_are_left_alone(tmp_path: Path) -> None:
    """Snapshots and the quorum state belong to the controller."""
    log = filled(tmp_path)
    crash(log)
    names = ("quorum-state", f"{10:020d}-0000000001.checkpoint", f"{5:020d}-0000000001.checkpoint.deleted")
    for name in names:
        (Path(log.path) / name).write_bytes(b"x")
    open_log(tmp_path, SMALL)
    assert all((Path(log.path) / name).read_bytes() == b"x" for name in names)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Rule R1, whatever their endings are: a user's files, and names that only look like a broker's."""
    log = filled(tmp_path)
    expected = read_all(log)
    crash(log)
    names = ("notes.tmp", "old.deleted", "table.cleaned", "copy.log.swap", "1.log.swap", f"{5:020d}x.tmp")
    for name in names:
        (Path(log.path) / name).write_bytes(Path(log.segments[0].log.path).read_bytes())
    before = {name: (Path(log.path) / name).read_bytes() for name in names}
    assert expected == read_all(open_log(tmp_path, SMALL))
    assert before == {name: (Path(log.path) / name).read_bytes() for name in names}
