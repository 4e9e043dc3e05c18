"""The state of a log is judged by its file names."""

from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.recovery.order import has_small_files, is_in_order

FIRST, SECOND = f"{0:020d}", f"{7:020d}"
CLOSED = {
    f"{FIRST}.log",
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    f"{FIRST}.txnindex",
    f"{SECOND}.log",
    f"{SECOND}.index",
    f"{SECOND}.timeindex",
    f"{9:020d}.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    f"{FIRST}.log.497.corrupt",
    "notes.txt",
}


def test_a_closed_log() -> None:
    """Files that recovery or people have added do not matter."""
    assert is_in_order(CLOSED, 9, 0)
    assert is_in_order(CLOSED, 9, 8)


@pytest.mark.parametrize(
    "missing", sorted(CLOSED - {f"{FIRST}.txnindex", "partition.metadata", f"{FIRST}.log.497.corrupt", "notes.txt"})
)
def test_a_log_that_lacks_a_file(missing: str) -> None:
    """An index without records is out of order too."""
    assert not is_in_order(CLOSED - {missing}, 9, 0)


@pytest.mark.parametrize(
    "more",
    [f"{FIRST}.log.deleted", f"{FIRST}.log.cleaned", f"{FIRST}.index.swap", "leader-epoch-checkpoint.tmp"]
    + [f"{3:020d}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")],
)
def test_a_log_with_something_unfinished(more: str) -> None:
    """A log with a part of a segment is not in order either."""
    assert not is_in_order(CLOSED | {more}, 9, 0)


def test_a_log_without_records_needs_nothing_derived_from_them() -> None:
    """It begins where it ends: at its first segment or at its log start offset."""
    empty = {f"{SECOND}.log", f"{SECOND}.index", f"{SECOND}.timeindex"}
    assert is_in_order(empty, 7, 0)
    assert is_in_order(empty, 9, 9)
    assert not is_in_order(empty, 9, 0)
    assert not is_in_order(set(), 0, 0)


def test_a_log_of_many_files() -> None:
    """It takes long to open."""
    assert not is_in_order(CLOSED | {f"{number}.corrupt" for number in range(100)}, 9, 0)


@pytest.mark.parametrize(
    ("sizes", "is_little"),
    [
        ({f"{9:020d}.snapshot": 60_000, f"{7:020d}.snapshot": 60_000, f"{FIRST}.log": 1 << 20}, True),
        ({f"{9:020d}.snapshot": 60_000, "leader-epoch-checkpoint": 6_000}, False),
        ({f"{number:020d}.txnindex": 34 for number in range(4)}, True),
        ({f"{number:020d}.txnindex": 34 for number in range(5)}, False),
        ({f"{FIRST}.txnindex": 70_000}, False),
    ],
)
def test_files_that_opening_a_log_reads(tmp_path: Path, sizes: dict[str, int], is_little: bool) -> None:
    """The producer snapshot at the end, epochs and aborted transactions are read; records are not."""
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
    assert has_small_files(LOCAL, str(tmp_path), sizes, 9) is is_little
