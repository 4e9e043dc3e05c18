"""The directory of an archive. A run is committed as a whole, or leaves no trace.

    topic=orders/date=2026-01-31/part-....parquet   rows; the manifest names each file, or it is about to be removed
    _pybroker/manifest.json                         the committed contents (manifest.py)
    _pybroker/runs/RUN/                             files of a run that is not committed yet
    _pybroker/restores/                             journals of restores (journal.py)
    _pybroker/lock                                  exclusive for a writer, shared among readers
    _delta_log/                                     only in an archive that is a Delta table as well (delta.py)

A run has three steps. It writes its files below runs/RUN and forces them to the disk. It writes the manifest that names
them: this commits the run. It moves them to the paths of the manifest, and removes the files that they replace. After a
crash, the next process that opens the archive finishes this: it moves the files of the manifest's run, and removes the
directories of other runs, which were not committed. In a Delta table, replaced files are removed last, after the log of
the table has removed them.
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
#: Characters that Spark would read as a pattern.
_PATTERN = frozenset("*?[]{}\\")


class Run:
    """A run: a directory of files that become part of the archive when they are committed."""

    def __init__(self, name: str, rows: Path) -> None:
        self.name = name
        #: Where Spark writes: the folder must not exist yet.
        self.rows = rows


class Archive:
    """An open archive, locked by this process: exclusively, or shared among readers. All methods raise OSError."""

    def __init__(self, root: Path, *, writing: bool, making: bool | None = None, files: Files | None = None) -> None:
        """Open an archive, or create it if `making` (default: `writing`); finish what a killed run has left.

        Errors: ArchiveBusy; DamagedArchive when other files are there; ArchiveError when there is no archive to read.
        """
        self.root = root
        self._inner = root / INNER
        self._files = Files() if files is None else files
        self._delta = DeltaLog(root, self._files)
        if _PATTERN & set(str(root)):
            raise ArchiveError(f"{root}: the path of an archive cannot contain * ? [ ] {{ }} \\")
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
        """Return the folder of all files that are not rows."""
        return self._inner

    def set_isolation(self, isolation: str) -> None:
        """Set the isolation level of the archive. Errors: ArchiveError when it has records of another level."""
        if self.manifest.isolation == isolation:
            return
        if self.manifest.ranges:
            raise ArchiveError(
                f"{self.root} was begun with {self.manifest.isolation} and cannot continue with {isolation}"
            )
        self._put(replace(self.manifest, isolation=isolation))

    def set_table(self, table: str) -> None:
        """Set the table format of the files. Errors: ArchiveError when a Delta table would stop to be one."""
        if self.manifest.table == table:
            return
        if self.manifest.table == DELTA:
            raise ArchiveError(f"{self.root} is a Delta table and must stay one")
        self._put(replace(self.manifest, table=table))
        self._bring_up_table()

    def begin(self) -> Run:
        """Start a new run."""
        name = secrets.token_hex(8)
        folder = self._run_folder(name)
        self._files.make_directory(folder)
        return Run(name, folder / "rows")

    def abandon(self, run: Run) -> None:
        """Remove the files of a run that is not committed."""
        self._files.remove_tree(self._run_folder(run.name))

    def written(self, run: Run, count_rows: Callable[[Path], int]) -> list[ArchivedFile]:
        """Return the files that a run has written so far."""
        return [
            ArchivedFile(path.as_posix(), count_rows(run.rows / path), self._files.size(run.rows / path))
            for path in self._files.parquet(run.rows)
        ]

    def commit(self, run: Run, ranges: Iterable[ArchivedRange], files: Iterable[ArchivedFile]) -> None:
        """Commit a run that archived more ranges."""
        self._commit(run, self.manifest.with_run(run.name, ranges, files))

    def commit_compacted(self, run: Run, files: Iterable[ArchivedFile], replaced: Iterable[str]) -> None:
        """Commit a run that replaces the files `replaced` by `files`."""
        self._commit(run, self.manifest.with_compacted(run.name, files, replaced))

    def paths(self, topics: Iterable[str] | None = None) -> list[str]:
        """Return the committed files of the topics, or of all topics."""
        wanted = None if topics is None else frozenset(topics)
        return [str(self.root / each.path) for each in self.manifest.files if wanted is None or each.topic in wanted]

    def unknown_files(self) -> list[str]:
        """Return Parquet files in the directory that the manifest does not name."""
        known = {each.path for each in self.manifest.files}
        return [path.as_posix() for path in self._files.parquet(self.root) if path.as_posix() not in known]

    def missing(self) -> list[str]:
        """Return files that the manifest names and that do not exist."""
        there = {path.as_posix() for path in self._files.parquet(self.root)}
        return [each.path for each in self.manifest.files if each.path not in there]

    def table_problems(self) -> list[str]:
        """Return the differences between the log of the Delta table and the manifest. Errors: DamagedArchive."""
        if self.manifest.table != DELTA:
            return []
        come, gone = self._delta.difference(self.manifest.files)
        problems = [f"{each.path} is not in the Delta table" for each in come]
        return problems + [f"{path} is in the Delta table but not in the manifest" for path in gone]

    # ---- inside

    @property
    def _path(self) -> Path:
        return self._inner / "manifest.json"

    def _run_folder(self, name: str) -> Path:
        return self._inner / "runs" / name

    def _begin(self, making: bool) -> None:
        """Create a new archive in a folder that is missing or empty."""
        if not making:
            raise ArchiveError(f"{self.root} is not an archive: it has no {INNER}/manifest.json")
        others = [name for name in self._files.names(self.root) if name != INNER]
        if others:
            raise DamagedArchive(f"{self.root} is not an archive and not empty: it contains {others[0]}")
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
        """Move the files of the manifest's run; remove the files that it replaces and those of uncommitted runs."""
        for name in self._unfinished():
            if name == self.manifest.run:
                if self.manifest.table != DELTA:  # otherwise a reader would see rows twice
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
            self._delta.set_files(self.manifest.files, time.time_ns() // 1_000_000)

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
        except OSError:  # executors of a killed driver may still write there; the next run removes it
            return
