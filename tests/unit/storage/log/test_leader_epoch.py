"""Leader epochs: assign, truncate, and find their end offsets (KIP-101, KIP-279)."""

from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.log.leader_epoch import EpochEntry, LeaderEpochs


def epochs(directory: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    found = LeaderEpochs(LOCAL, str(directory), exists=False)
    for entry in entries:
        found.assign(*entry)
    return found


def test_file_is_version_count_and_entries(tmp_path: Path) -> None:
    """Apache Kafka's format."""
    found = epochs(tmp_path, (0, 0), (3, 1500))
    assert Path(found.path).read_bytes() == b"0\n2\n0 0\n3 1500\n"
    assert LeaderEpochs(LOCAL, str(tmp_path)).entries == ((0, 0), (3, 1500))


@pytest.mark.parametrize(
    ("added", "expected", "new"),
    [
        ((4, 200), [(1, 0), (3, 100), (4, 200)], True),
        ((3, 150), [(1, 0), (3, 100)], False),
        ((3, 50), [(1, 0), (3, 50)], True),
        ((4, 100), [(1, 0), (4, 100)], True),
        ((2, 200), [(1, 0), (2, 200)], True),
        ((5, 0), [(5, 0)], True),
    ],
)
def test_assign_keeps_both_fields_ascending(
    added: tuple[int, int], expected: list[tuple[int, int]], new: bool, tmp_path: Path
) -> None:
    """Entries that contradict the new one are removed."""
    found = epochs(tmp_path, (1, 0), (3, 100))
    assert found.assign(*added) is new
    assert list(found.entries) == expected


def test_announced_epoch_is_written_with_its_first_batch(tmp_path: Path) -> None:
    """It is known at once. The file is written later, except for the first epoch of a log and other changes."""
    found = LeaderEpochs(LOCAL, str(tmp_path), exists=False)
    assert found.announce(0, 0)
    assert Path(found.path).read_bytes() == b"0\n1\n0 0\n"
    assert not found.announce(2, 15)
    assert found.entries == ((0, 0), (2, 15))
    assert Path(found.path).read_bytes() == b"0\n1\n0 0\n"
    assert found.assign(2, 15)
    assert Path(found.path).read_bytes() == b"0\n2\n0 0\n2 15\n"
    assert not found.assign(2, 17)
    assert not found.announce(4, 20)
    found.truncate_from_start(16)
    assert Path(found.path).read_bytes() == b"0\n2\n2 16\n4 20\n"
    assert not found.assign(4, 20)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, (0, 10)), (1, (1, 100)), (2, (1, 100)), (3, (3, 999)), (4, (-1, -1)), (-1, (-1, -1))]
)
def test_end_offset_of_an_epoch(epoch: int, expected: tuple[int, int], tmp_path: Path) -> None:
    """The largest epoch not above the requested one, and the start of the next; the newest ends with the log."""
    assert epochs(tmp_path, (1, 10), (3, 100)).end_offset(epoch, 999) == EpochEntry(*expected)
    assert LeaderEpochs(LOCAL, "/x", exists=False).end_offset(epoch, 999) == EpochEntry(-1, -1)


@pytest.mark.parametrize(("offset", "expected"), [(9, None), (10, 1), (99, 1), (100, 3), (5000, 3)])
def test_epoch_of_an_offset(offset: int, expected: int | None, tmp_path: Path) -> None:
    """The epoch in which an offset was written."""
    assert epochs(tmp_path, (1, 10), (3, 100)).epoch_of(offset) == expected


def test_truncation_at_both_ends(tmp_path: Path) -> None:
    """The epoch that contains the new start begins there; epochs beyond the new end are removed."""
    found = epochs(tmp_path, (0, 0), (1, 10), (2, 20), (3, 30))
    found.truncate_from_start(15)
    assert found.entries == ((1, 15), (2, 20), (3, 30))
    found.truncate_from_start(5)
    found.truncate_from_end(30)
    assert found.entries == ((1, 15), (2, 20))
    assert found.latest == 2
    assert LeaderEpochs(LOCAL, str(tmp_path)).entries == found.entries
    found.clear()
    assert (found.entries, found.latest) == ((), None)
    assert Path(found.path).read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("data", [b"", b"0\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\nx y\n", b"0\n1\n0\n", b"\xff\xfe"])
def test_damaged_file_gives_no_epochs(data: bytes, tmp_path: Path) -> None:
    """Rule R6: recovery restores them."""
    (tmp_path / "leader-epoch-checkpoint").write_bytes(data)
    found = LeaderEpochs(LOCAL, str(tmp_path))
    assert (found.entries, found.damaged) == ((), True)
