"""The transaction index: entries of 34 bytes for aborted transactions, ordered by their end."""

from pathlib import Path

import pytest

from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.index.transaction import AbortedTransaction, TransactionIndex
from storage.open_files import OpenFiles

ENTRIES = [
    AbortedTransaction(1, 0, 10, 11),
    AbortedTransaction(2, 5, 15, 12),
    AbortedTransaction(3, 12, 20, 25),
    AbortedTransaction(1, 18, 24, 25),
]


def filled(directory: Path) -> TransactionIndex:
    index = TransactionIndex(OpenFiles(LOCAL), f"{directory}/{0:020d}.txnindex", exists=False)
    for entry in ENTRIES:
        index.append(entry)
    return index


def reopened(index: TransactionIndex) -> TransactionIndex:
    return TransactionIndex(OpenFiles(LOCAL), index.path, exists=True)


def test_entry_has_34_bytes(tmp_path: Path) -> None:
    """S6.1."""
    index = filled(tmp_path)
    assert Path(index.path).stat().st_size == 4 * 34
    assert reopened(index).entries() == ENTRIES


@pytest.mark.parametrize(
    ("start", "end", "expected", "complete"),
    [
        (0, 10, ENTRIES[:1], True),
        (0, 12, ENTRIES[:2], True),
        (9, 13, ENTRIES[:3], True),
        (16, 100, ENTRIES[2:], False),
        (11, 100, ENTRIES[1:], False),
        (25, 100, [], False),
    ],
)
def test_collect_returns_overlapping_transactions(
    start: int, end: int, expected: list[AbortedTransaction], complete: bool, tmp_path: Path
) -> None:
    """The search stops at an entry whose last stable offset excludes all later ones."""
    assert filled(tmp_path).collect(start, end) == (expected, complete)


def test_reset_empties_the_file(tmp_path: Path) -> None:
    """Recovery rebuilds it."""
    index = filled(tmp_path)
    index.reset()
    assert index.entries() == []
    assert Path(index.path).read_bytes() == b""


def test_reset_makes_no_file(tmp_path: Path) -> None:
    """S6.1: the file exists only if there are aborted transactions."""
    index = TransactionIndex(OpenFiles(LOCAL), f"{tmp_path}/x.txnindex", exists=False)
    index.reset()
    assert not list(tmp_path.iterdir())
    assert TransactionIndex(OpenFiles(LOCAL), f"{tmp_path}/y.txnindex", exists=True).entries() == []


@pytest.mark.parametrize("data", [bytes(33), bytes(34), b"\0\x07" + bytes(32), b"\xff" * 34])
def test_invalid_entry_is_corrupt(data: bytes, tmp_path: Path) -> None:
    """Rule R6."""
    index = filled(tmp_path)
    Path(index.path).write_bytes(data)
    with pytest.raises(CorruptFile):
        reopened(index).entries()
