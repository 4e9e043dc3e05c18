"""The archive process dies at any call: after a repetition each row is there once, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from broker.external_readers.archives.manifest import read_archive
from pybroker.archive.archiving import Sums, archive_ranges
from pybroker.archive.compacting import Compaction, compact
from pybroker.archive.errors import ArchiveBusy, ArchiveError, DamagedArchive
from pybroker.archive.files import Files
from pybroker.archive.planning import LogEnds, wanted_ranges
from pybroker.archive.store import Archive
from pybroker.source.bounds import TopicPartition
from pybroker.source.ranges import OffsetRange
from tests.support.failing_files import Died, DyingFiles, count_rows, put_rows, read_rows, sums_of, writing

Row = tuple[str, int, int]

LOG: list[Row] = [("orders", partition, offset) for partition in (0, 1) for offset in range(12) if offset % 5]
ENDS = [LogEnds("orders", partition, 0, 12, 12) for partition in (0, 1)]


def archive_once(
    root: Path, files: Files, ends: list[LogEnds] = ENDS, step_offsets: int = 14, table: str | None = None
) -> None:
    """Archive as the command does."""
    step = files.count if isinstance(files, DyingFiles) else lambda name: None
    with Archive(root, writing=True, files=files) as archive:
        if table is not None:
            archive.set_table(table)
        plan = wanted_ranges(ends, archive.manifest.ends(), skip_lost=False)
        archive_ranges(archive, plan.ranges, writing(LOG, step), count_rows, step_offsets=step_offsets)


def compact_once(root: Path, files: Files) -> tuple[int, int]:
    """Compact as the command does."""
    step = files.count if isinstance(files, DyingFiles) else lambda name: None

    def rewrite(wanted: Compaction, folder: Path) -> tuple[object, object]:
        rows = [row for each in wanted.files for row in read_rows(root / each.path)]
        step("job")
        put_rows(folder, f"compacted-{len(list(root.rglob('*.parquet')))}", rows)
        step("job")
        return sums_of(rows), sums_of(rows)

    with Archive(root, writing=True, files=files) as archive:
        return compact(archive, rewrite, count_rows)


def visible(root: Path) -> list[Row]:
    """Return the rows that any reader of Parquet sees."""
    return sorted(row for path in root.glob("topic=*/date=*/*.parquet") for row in read_rows(path))


def in_table(root: Path) -> list[Row]:
    """Return the rows of the Delta table, all of whose files have to exist, or None without a table."""
    there: set[str] = set()
    for version in sorted((root / "_delta_log").glob("*.json")):
        for action in map(json.loads, version.read_text().splitlines()):
            there |= {action["add"]["path"]} if "add" in action else set()
            there -= {action["remove"]["path"]} if "remove" in action else set()
    return sorted(row for path in there for row in read_rows(root / path))


def check(root: Path, rows: list[Row] = LOG) -> None:
    """Assert that files and manifest have exactly these rows, each once."""
    with Archive(root, writing=False) as archive:
        assert sorted(row for path in archive.paths() for row in read_rows(Path(path))) == sorted(rows)
        assert archive.unknown_files() == archive.missing() == archive.table_problems() == []
        if archive.manifest.table == "delta":
            assert in_table(root) == sorted(rows)
        for each in archive.manifest.ranges:
            offsets = [row[2] for row in rows if row[:2] == each.place and each.start <= row[2] < each.end]
            assert (each.records, each.checksum) == (len(offsets), sum(offset**2 for offset in offsets))
        assert sum(each.records for each in archive.manifest.ranges) == len(rows)
    assert visible(root) == sorted(rows)
    assert list((root / "_pybroker" / "runs").iterdir()) == []


def at_each_call(act: Callable[[Path, Files], object], prepared: Callable[[], Path]) -> int:
    """Let the process die at each of its calls in turn; then repeat `act` until it completes."""
    die_at = 0
    while True:
        die_at += 1
        root, files = prepared(), DyingFiles(die_at)
        with suppress(Died):
            act(root, files)
        rows = in_table(root) if (root / "_delta_log").exists() else visible(root) if root.exists() else []
        assert len(rows) == len(set(rows)), f"rows are duplicated after {files.calls}"
        again = DyingFiles(die_at // 2)  # and once more during the recovery
        with suppress(Died):
            act(root, again)
        act(root, Files())
        check(root)
        if not files.has_died:
            return die_at - 1


@pytest.mark.parametrize(("table", "step"), [("parquet", 14), ("delta", 1000)])
def test_killed_archiving_loses_and_duplicates_no_row(tmp_path: Path, table: str, step: int) -> None:
    """Two runs, or one with a Delta table; the process dies twice at each call."""
    roots = iter(range(10_000))

    calls = at_each_call(
        lambda root, files: archive_once(root, files, ENDS, step, table), lambda: tmp_path / f"lake-{next(roots)}"
    )

    assert calls > 30


def test_partitions_without_new_records_need_no_job(tmp_path: Path) -> None:
    def job(ranges: Sequence[OffsetRange], folder: Path) -> Iterable[Sums]:
        raise AssertionError("there is nothing to write")

    with Archive(tmp_path / "lake", writing=True) as archive:
        archive_ranges(archive, [OffsetRange("orders", 0, 7, 7), OffsetRange("orders", 1, 9, 9)], job, count_rows)
        assert archive.manifest.ends() == {("orders", 0): 7, ("orders", 1): 9}
    check(tmp_path / "lake", [])


@pytest.mark.parametrize("table", ["parquet", "delta"])
def test_killed_compaction_loses_and_duplicates_no_row(tmp_path: Path, table: str) -> None:
    roots = iter(range(10_000))

    def archived() -> Path:
        root = tmp_path / f"lake-{next(roots)}"
        archive_once(root, Files(), ENDS, 10, table)
        assert len(list(root.rglob("*.parquet"))) > 6
        return root

    def both(root: Path, files: Files) -> None:
        compact_once(root, files)
        if table == "delta":
            assert len(in_table(root)) == len(LOG)
        assert len(list(root.glob("topic=*/date=*/*.parquet"))) == 3

    assert at_each_call(both, archived) > 20


def test_archived_rows_are_not_archived_again(tmp_path: Path) -> None:
    """New rows are appended."""
    root = tmp_path / "lake"
    archive_once(root, Files(), [each._replace(settled=6) for each in ENDS], 1000)
    check(root, [row for row in LOG if row[2] < 6])
    archive_once(root, Files(), ENDS, 1000)
    archive_once(root, Files(), ENDS, 1000)
    check(root)
    with Archive(root, writing=False) as archive:
        assert [(each.partition, each.start, each.end) for each in archive.manifest.ranges] == [
            *((0, 0, 6), (0, 6, 12)),
            *((1, 0, 6), (1, 6, 12)),
        ]


def test_second_compaction_does_nothing(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    archive_once(root, Files())
    gone, come = compact_once(root, Files())

    assert gone > come == 3
    assert compact_once(root, Files()) == (0, 0)
    check(root)


def test_compaction_that_changes_rows_is_dropped(tmp_path: Path) -> None:
    """The old files stay, and the new ones are deleted."""
    root = tmp_path / "lake"
    archive_once(root, Files())

    def rewrite(wanted: Compaction, folder: Path) -> tuple[object, object]:
        rows = [row for each in wanted.files for row in read_rows(root / each.path)]
        put_rows(folder, "new", rows[1:])
        return sums_of(rows), sums_of(rows[1:])

    with Archive(root, writing=True) as archive, pytest.raises(DamagedArchive, match="The old files are kept"):
        compact(archive, rewrite, count_rows)
    check(root)


def test_failed_job_leaves_the_archive_unchanged(tmp_path: Path) -> None:
    """A job that writes other rows than requested fails, too."""
    root = tmp_path / "lake"
    with Archive(root, writing=True) as archive:
        plan = wanted_ranges(ENDS, {}, skip_lost=False)

        def failing(ranges: object, folder: Path) -> list[object]:
            put_rows(folder, "one", LOG[:3])
            raise ArchiveError("the log is gone")

        with pytest.raises(ArchiveError, match="the log is gone"):
            archive_ranges(archive, plan.ranges, failing, count_rows)  # type: ignore[arg-type]
        more = writing([*LOG, ("orders", 2, 0)])
        everything = [*plan.ranges, plan.ranges[0]._replace(partition=2)]
        with pytest.raises(DamagedArchive, match="belong to no requested range"):
            archive_ranges(
                archive, plan.ranges, lambda ranges, folder: more(everything, folder), count_rows, step_offsets=1000
            )
    check(root, [])


def test_archive_has_one_writer_and_many_readers(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with Archive(root, writing=True):
        for writing_too in (True, False):
            with pytest.raises(ArchiveBusy):
                Archive(root, writing=writing_too)
    with Archive(root, writing=False), Archive(root, writing=False), pytest.raises(ArchiveBusy):
        Archive(root, writing=True)


def test_other_directory_is_refused(tmp_path: Path) -> None:
    """It is neither converted to an archive nor read as one."""
    (tmp_path / "mine.txt").touch()

    with pytest.raises(DamagedArchive, match=r"not empty: it contains mine\.txt"):
        Archive(tmp_path, writing=True)
    with pytest.raises(ArchiveError, match="is not an archive"):
        Archive(tmp_path, writing=False)
    with pytest.raises(ArchiveError, match="path of an archive cannot contain"):
        Archive(tmp_path / "a*", writing=True)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_archive_becomes_a_delta_table(tmp_path: Path) -> None:
    """With all its rows, and for good. Each run is a version, and a compaction changes no data."""
    root = tmp_path / "lake"
    archive_once(root, Files(), [each._replace(settled=6) for each in ENDS], 1000)
    with Archive(root, writing=True) as archive:
        assert archive.table_problems() == []
        archive.set_table("delta")
        with pytest.raises(ArchiveError, match="is a Delta table and must stay one"):
            archive.set_table("parquet")
    assert len(in_table(root)) == len([row for row in LOG if row[2] < 6])
    archive_once(root, Files(), ENDS, 1000)
    compact_once(root, Files())
    check(root)

    versions = sorted((root / "_delta_log").iterdir())
    assert [each.name for each in versions] == [f"{number:020}.json" for number in range(3)]
    actions = [[json.loads(line) for line in each.read_text().splitlines()] for each in versions]
    assert [{kind for each in version for kind in each} for version in actions] == [
        {"commitInfo", "protocol", "metaData", "add"},
        {"commitInfo", "add"},
        {"commitInfo", "add", "remove"},
    ]
    changes = [{each["add"]["dataChange"] for each in version if "add" in each} for version in actions]
    assert changes == [{True}, {True}, {False}]
    added = next(each["add"] for each in actions[0] if "add" in each)
    assert added["partitionValues"] == {"topic": "orders", "date": added["path"].split("/")[1].removeprefix("date=")}


def test_damaged_delta_log_is_an_error(tmp_path: Path) -> None:
    """It is written again once it is removed. Foreign files in the table are reported."""
    root = tmp_path / "lake"
    archive_once(root, Files(), ENDS, 1000, "delta")
    first, second = sorted((root / "_delta_log").iterdir())
    whole = second.read_text()
    second.write_text('{"add": {"path": "topic=orders/date=2026-01-01/theirs.parquet"}}\n')
    with Archive(root, writing=False) as archive:
        problems = archive.table_problems()
    assert problems[-1] == "topic=orders/date=2026-01-01/theirs.parquet is in the Delta table but not in the manifest"
    assert len(problems) == whole.count('"add"') + 1
    second.write_text("{")
    with pytest.raises(DamagedArchive, match=r"0001\.json is damaged"):
        Archive(root, writing=True)
    first.unlink()
    with pytest.raises(DamagedArchive, match=r"_delta_log lacks version 0\. Remove the folder"):
        Archive(root, writing=True)
    second.unlink()
    with Archive(root, writing=True):
        pass
    check(root)


def test_archive_keeps_its_isolation_level(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with Archive(root, writing=True) as archive:
        archive.set_isolation("read_uncommitted")
    archive_once(root, Files())
    with Archive(root, writing=True) as archive:
        archive.set_isolation("read_uncommitted")
        with pytest.raises(ArchiveError, match="was begun with read_uncommitted"):
            archive.set_isolation("read_committed")


def test_manifest_is_written_by_each_run(tmp_path: Path) -> None:
    """A broker's retention relies on it, so its ranges have to be archived."""
    root = tmp_path / "lake"
    stored: list[Mapping[TopicPartition, int]] = []
    write_rows = writing(LOG)

    def write(ranges: Sequence[OffsetRange], folder: Path) -> Iterable[Sums]:
        stored.append(read_archive(str(root)).ends)
        return write_rows(ranges, folder)

    with Archive(root, writing=True) as archive:
        plan = wanted_ranges(ENDS, archive.manifest.ends(), skip_lost=False)
        archive_ranges(archive, plan.ranges, write, count_rows, step_offsets=12)
    assert stored == [{}, {("orders", 0): 6, ("orders", 1): 6}]
    assert read_archive(str(root)).ends == {("orders", 0): 12, ("orders", 1): 12}
