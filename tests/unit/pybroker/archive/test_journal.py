"""The journal file of a restore."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pybroker.archive.errors import ArchiveBusy, DamagedArchive, UnusableTarget
from pybroker.archive.files import Files
from pybroker.archive.journal import Journal, RestoreState, default_path
from tests.support.failing_files import Died, DyingFiles

FIRST = RestoreState("orders", "back", "cluster", (7, 1), {0: 0, 3: 17})


def test_journal_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "restores" / "one.json"
    with Journal(path) as journal:
        assert journal.current is None
        journal.put(FIRST)
        journal.complete({0: 10})
    with Journal(path) as journal:
        assert journal.current == RestoreState("orders", "back", "cluster", (7, 1), {0: 0, 3: 17}, {0: 10})


def test_journal_belongs_to_one_restore(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    with Journal(path) as journal:
        journal.put(FIRST)
        journal.check("orders", "back", "cluster")
        with pytest.raises(ArchiveBusy):
            Journal(path)
        for other in (("clicks", "back", "cluster"), ("orders", "x", "cluster"), ("orders", "back", "x")):
            with pytest.raises(UnusableTarget, match="belongs to a restore of orders into back of the cluster cluster"):
                journal.check(*other)


def test_killed_write_leaves_the_old_or_new_journal(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    die_at, seen = 0, set()
    while True:
        die_at += 1
        with Journal(path) as journal:
            journal.put(FIRST)
        files = DyingFiles(die_at)
        with suppress(Died), Journal(path, files) as journal:
            journal.complete({0: 5})
        with Journal(path, Files()) as journal:
            assert journal.current is not None
            assert journal.current.restored in ({}, {0: 5})
            seen.add(len(journal.current.restored))
        if not files.has_died:
            break
    assert seen == {0, 1}


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": "pybroker-restore", "version": 9}', b"\x00\xff"])
def test_other_file_is_rejected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "one.json").write_bytes(data)

    with pytest.raises(DamagedArchive):
        Journal(tmp_path / "one.json")


def test_cluster_id_cannot_change_the_path(tmp_path: Path) -> None:
    assert default_path(tmp_path, "../a/b", "orders").parent == tmp_path / "restores"
