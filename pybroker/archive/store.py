"""An archive's directory: runs that are whole or have never been.

    topic=orders/date=2026-01-31/part-....parquet   rows; each of these files is in the manifest, or about to go
    _pybroker/manifest.json                         what counts (manifest.py)
    _pybroker/runs/RUN/                             what a run writes, until it counts
    _pybroker/restores/                             how far restores are (journal.py)
    _pybroker/lock                                  held by whoever writes, shared by those who read
    _delta_log/                                     of an archive that is a Delta table as well (delta.py)

A run writes its files below runs/RUN; they are forced to the disk, then the manifest names them, which is when they
count; then they move to where the manifest says, and what they replace goes. Whoever opens the archive next finishes
that: the directory of the manifest's run is moved, and those of other runs, which were never finished, are removed. In
a Delta table the files that are replaced go last, when the table's log says so.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pybroker.archive.delta import DeltaLog
from pybroker.archive.errors import ArchiveError, DamagedArchive
from pybroker.archive.files import Files, Lock
from pybroker.archive.manifest import DELTA, ArchivedFile, ArchivedRange, Manifest, decode, encode

INNER = "_pybroker"
#: What Spark would take for a pattern.
_PATTERN = frozenset("*?[]{}\\")


class Run:
    """A directory of its own, whose files count once they are committed."""

    def __init__(self, name: str, rows: Path) -> None:
        self.name = name
        #: Where Spark writes: it is not there yet.
        self.rows = rows


class Archive:
    """An archive that this process has: alone, or to read it beside others. Errors, of all methods: OSError."""

    def __init__(self, root: Path, *, writing: bool, making: bool | None = None, files: Files | None = None) -> None:
        """Open an archive, or make it if `making` (unless given: if `writing`); finish what a killed run has left.

        Errors: ArchiveBusy; DamagedArchive where something else is there; ArchiveError where nothing is to be read.
        """
        self.root = root
        self._inner = root / INNER
        self._files = Files() if files is None else files
        self._delta = DeltaLog(root, self._files)
        if _PATTERN & set(str(root)):
            raise ArchiveError(f"{root}: none of * ? [ ] {{ }} \\ may be in an archive's path")
        if self._files.read(self._path) is None:
            self._begin(writing if making is None else making)
        self._lock = self._locked(writing)
        try:
            self.manifest = self._read()
            self._finish()
            if writing:
                self._bring_up_table()
        except BaseException:
            self._lock.close()
            raise
        if not writing:
            self._lock.share()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    @property
    def inner(self) -> Path:
        """The folder of everything but rows."""
        return self._inner

    def set_isolation(self, isolation: str) -> None:
        """Say which records are archived. Errors: ArchiveError where there are some, of another isolation level."""
        if self.manifest.isolation == isolation:
            return
        if self.manifest.ranges:
            raise ArchiveError(
                f"{self.root} was begun with {self.manifest.isolation}, and cannot go on with {isolation}"
            )
        self._put(replace(self.manifest, isolation=isolation))

    def set_table(self, table: str) -> None:
        """Say what the files are to their readers. Errors: ArchiveError for a Delta table that is to be none."""
        if self.manifest.table == table:
            return
        if self.manifest.table == DELTA:
            raise ArchiveError(f"{self.root} is a Delta table, and stays one")
        self._put(replace(self.manifest, table=table))
        self._bring_up_table()

    def begin(self) -> Run:
        """A new run."""
        name = secrets.token_hex(8)
        folder = self._run_folder(name)
        self._files.make_directory(folder)
        return Run(name, folder / "rows")

    def abandon(self, run: Run) -> None:
        """Remove what a run has written, which does not count."""
        self._files.remove_tree(self._run_folder(run.name))

    def written(self, run: Run, count_rows: Callable[[Path], int]) -> list[ArchivedFile]:
        """The files that a run has written so far."""
        return [
            ArchivedFile(path.as_posix(), count_rows(run.rows / path), self._files.size(run.rows / path))
            for path in self._files.parquet(run.rows)
        ]

    def commit(self, run: Run, ranges: Iterable[ArchivedRange], files: Iterable[ArchivedFile]) -> None:
        """Make a run count that has archived more."""
        self._commit(run, self.manifest.with_run(run.name, ranges, files))

    def commit_compacted(self, run: Run, files: Iterable[ArchivedFile], replaced: Iterable[str]) -> None:
        """Make a run count that has put `files` in place of others."""
        self._commit(run, self.manifest.with_compacted(run.name, files, replaced))

    def paths(self, topics: Iterable[str] | None = None) -> list[str]:
        """The files that count, of these topics or of all."""
        wanted = None if topics is None else frozenset(topics)
        return [str(self.root / each.path) for each in self.manifest.files if wanted is None or each.topic in wanted]

    def strangers(self) -> list[str]:
        """Parquet files beside the archive's own, which do not count."""
        known = {each.path for each in self.manifest.files}
        return [path.as_posix() for path in self._files.parquet(self.root) if path.as_posix() not in known]

    def missing(self) -> list[str]:
        """Files of the archive that are not there."""
        there = {path.as_posix() for path in self._files.parquet(self.root)}
        return [each.path for each in self.manifest.files if each.path not in there]

    def table_problems(self) -> list[str]:
        """What a Delta table's log says otherwise than the manifest. Errors: DamagedArchive."""
        if self.manifest.table != DELTA:
            return []
        come, gone = self._delta.difference(self.manifest.files)
        problems = [f"{each.path} is not in the Delta table" for each in come]
        return problems + [f"{path} is in the Delta table, and not in the manifest" for path in gone]

    # ---- inside

    @property
    def _path(self) -> Path:
        return self._inner / "manifest.json"

    def _run_folder(self, name: str) -> Path:
        return self._inner / "runs" / name

    def _begin(self, making: bool) -> None:
        """Make the folder of a new archive, where nothing else is."""
        if not making:
            raise ArchiveError(f"{self.root} is no archive: there is no {INNER}/manifest.json in it")
        others = [name for name in self._files.names(self.root) if name != INNER]
        if others:
            raise DamagedArchive(f"{self.root} is no archive, and not empty: {others[0]} is in it")
        self._files.make_directory(self._inner)
        self._files.sync(self.root)
        self._files.sync(self.root.parent)

    def _locked(self, writing: bool) -> Lock:
        path = self._inner / "lock"
        if writing:
            return Lock(path)
        lock = Lock(path, shared=True)
        if not self._unfinished():
            return lock
        lock.close()
        return Lock(path)

    def _read(self) -> Manifest:
        data = self._files.read(self._path)
        if data is not None:
            return decode(data, str(self._path))
        self._put(Manifest())
        return self.manifest

    def _put(self, manifest: Manifest) -> None:
        self._files.replace(self._path, encode(manifest))
        self.manifest = manifest

    def _unfinished(self) -> list[str]:
        return self._files.names(self._inner / "runs")

    def _commit(self, run: Run, manifest: Manifest) -> None:
        folders = {run.rows}
        for path in self._files.parquet(run.rows):
            self._files.sync(run.rows / path)
            folders |= {run.rows / parent for parent in path.parents}
        for folder in sorted(folders):
            if self._files.names(folder):
                self._files.sync(folder)
        self._files.sync(self._run_folder(run.name))
        self._files.sync(self._inner / "runs")
        self._put(manifest)
        self._finish()

    def _finish(self) -> None:
        """Move what the manifest's run has written, and remove what it replaces and what never counted."""
        for name in self._unfinished():
            if name == self.manifest.run:
                if self.manifest.table != DELTA:  # else a reader would see rows twice
                    self._remove_replaced()
                self._move(self._run_folder(name) / "rows")
                self._bring_up_table()
                self._remove_replaced()
                self._files.remove_tree(self._run_folder(name))
            else:
                self._discard(name)

    def _remove_replaced(self) -> None:
        for replaced in self.manifest.replaced:
            self._files.remove(self.root / replaced)

    def _bring_up_table(self) -> None:
        if self.manifest.table == DELTA:
            self._delta.bring_up(self.manifest.files, time.time_ns() // 1_000_000)

    def _move(self, rows: Path) -> None:
        folders = set()
        for path in self._files.parquet(rows):
            target = self.root / path
            self._files.make_directory(target.parent)
            self._files.rename(rows / path, target)
            folders |= {target.parent, target.parent.parent}
        for folder in sorted({*folders, self.root} if folders else folders):
            self._files.sync(folder)

    def _discard(self, name: str) -> None:
        try:
            self._files.remove_tree(self._run_folder(name))
        except OSError:  # a Spark whose driver was killed may still write there: the next one removes it
            return
