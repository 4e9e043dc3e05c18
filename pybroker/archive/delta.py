"""An archive as a Delta table: a Delta Lake log beside the manifest. The manifest stays authoritative.

    _delta_log/00000000000000000000.json ...    versions of the table, each with the files that it adds and removes

This module writes the log, not Spark: a version for each run, once the files of the run are in their final place. The
next process that opens the archive adds a missing version. Source: PROTOCOL.md of Delta Lake, reader version 1, writer
version 2 (for delta.appendOnly).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from pybroker.archive.errors import DamagedArchive
from pybroker.archive.files import Files
from pybroker.archive.manifest import ArchivedFile

LOG = "_delta_log"
_VERSION = re.compile(r"(\d{20})\.json")
#: Characters that stay unescaped in a path.
_SAFE = "/=+-._~"

_HEADERS = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("key", "string"), ("value", "binary"))
        ],
    },
}
_COLUMNS: dict[str, Any] = {
    "key": "binary",
    "value": "binary",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
    "headers": _HEADERS,
    "topic": "string",
    "date": "date",
}
_PARTITIONS = ("topic", "date")


class DeltaLog:
    """The log below an archive's folder. Errors, of all methods: OSError."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._folder = root / LOG
        self._files = files

    def difference(self, wanted: Iterable[ArchivedFile]) -> tuple[list[ArchivedFile], list[str]]:
        """Return the files that the table lacks, and those that it must not have. Errors: DamagedArchive."""
        return _difference(self._read()[0], wanted)

    def set_files(self, wanted: Iterable[ArchivedFile], now_ms: int) -> None:
        """Add a version that gives the table exactly these files, unless it has them. Errors: DamagedArchive."""
        there, version = self._read()
        come, gone = _difference(there, wanted)
        if not (come or gone or version is None):
            return
        if version is None:
            self._files.make_directory(self._folder)
            self._files.sync(self._root)
        # a version that removes files only moves rows (compaction): streaming readers must not read them again
        actions = [*_commit(now_ms), *(_table(now_ms) if version is None else ())]
        actions += [self._added(each, new=not gone) for each in come]
        actions += [_removed(path, now_ms) for path in gone]
        data = "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in actions)
        number = 0 if version is None else version + 1
        self._files.replace(self._folder / f"{number:020}.json", data.encode())

    def _read(self) -> tuple[set[str], int | None]:
        """Return the files of the table and its version; None when there is no table."""
        names = [name for name in self._files.names(self._folder) if _VERSION.fullmatch(name)]
        there: set[str] = set()
        for number, name in enumerate(names):
            path = self._folder / name
            if int(name.removesuffix(".json")) != number:
                raise DamagedArchive(
                    f"{self._folder} lacks version {number}. Remove the folder, and the next run writes it again"
                )
            try:
                for action in map(json.loads, (self._files.read(path) or b"").splitlines()):
                    if "add" in action:
                        there.add(unquote(action["add"]["path"]))
                    elif "remove" in action:
                        there.discard(unquote(action["remove"]["path"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DamagedArchive(f"{path} is damaged: {error!r}") from None
        return there, len(names) - 1 if names else None

    def _added(self, each: ArchivedFile, *, new: bool) -> dict[str, Any]:
        return {
            "add": {
                "path": quote(each.path, safe=_SAFE),
                "partitionValues": _values(each.path),
                "size": each.bytes,
                "modificationTime": (self._root / each.path).stat().st_mtime_ns // 1_000_000,
                "dataChange": new,
                "stats": json.dumps({"numRecords": each.records}),
            }
        }


def _difference(there: set[str], wanted: Iterable[ArchivedFile]) -> tuple[list[ArchivedFile], list[str]]:
    by_path = {each.path: each for each in wanted}
    return [by_path[path] for path in sorted(by_path.keys() - there)], sorted(there - by_path.keys())


def _removed(path: str, now_ms: int) -> dict[str, Any]:
    return {
        "remove": {
            "path": quote(path, safe=_SAFE),
            "deletionTimestamp": now_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": _values(path),
        }
    }


def _values(path: str) -> dict[str, str]:
    """Return the partition values that the folders of a path name."""
    return {name: unquote(value) for name, _, value in (each.partition("=") for each in path.split("/")[:-1])}


def _commit(now_ms: int) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "pybroker archive"}}


def _table(now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the actions of the first version: protocol and metadata of the table."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS.items()]
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    yield {
        "metaData": {
            "id": str(uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(_PARTITIONS),
            "configuration": {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"},
            "createdTime": now_ms,
        }
    }
