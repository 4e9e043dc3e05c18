"""The newest times in a log directory, of its files and of its records. Safe while a broker runs: it only reads."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from storage.directory_names import DirectoryKind, parse_name
from storage.segment.files import LOG_SUFFIX, TIME_INDEX_SUFFIX

#: An entry of a time index: timestamp in ms and relative offset, big endian.
_ENTRY_BYTES, _TIMESTAMP_BYTES = 12, 8


class Newest(NamedTuple):
    """The newest times in ms since the epoch, each with its partition; 0 and "" if there is none."""

    written_ms: int = 0
    written: str = ""
    record_ms: int = 0
    record: str = ""


def newest_times(directory: str) -> Newest:
    """Return the latest write to a segment and the largest timestamp in a time index, over all partitions.

    Raises OSError if the directory cannot be read. Files that are deleted meanwhile are skipped.
    """
    written, records = (0, ""), (0, "")
    for entry in os.scandir(directory):
        if not entry.is_dir() or parse_name(entry.name)[0] is not DirectoryKind.PARTITION:
            continue
        for file in Path(entry.path).iterdir():
            if file.suffix == LOG_SUFFIX:
                written = max(written, (_read(_modified_ms, file), entry.name))
            elif file.suffix == TIME_INDEX_SUFFIX:
                records = max(records, (_read(_largest_ms, file), entry.name))
    return Newest(*(written if written[0] else (0, "")), *(records if records[0] else (0, "")))


def _read(what: Callable[[Path], int], file: Path) -> int:
    try:
        return what(file)
    except FileNotFoundError:
        return 0


def _modified_ms(file: Path) -> int:
    return file.stat().st_mtime_ns // 1_000_000


def _largest_ms(file: Path) -> int:
    """Return the timestamp of the last entry; in an active segment's file, zeros follow it, up to 10 MiB."""
    with file.open("rb", buffering=0) as index:

        def timestamp(number: int) -> int:
            data = os.pread(index.fileno(), _TIMESTAMP_BYTES, number * _ENTRY_BYTES)
            return int.from_bytes(data, "big", signed=True)

        count = os.fstat(index.fileno()).st_size // _ENTRY_BYTES
        used = bisect_left(range(count), True, key=lambda number: timestamp(number) <= 0)
        return timestamp(used - 1) if used else 0
