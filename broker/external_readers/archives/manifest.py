"""Read from `_pybroker/manifest.json` how far an archive of `pybroker archive` has read.

Only the ranges of that file matter here. Each is in the archive for good. pybroker/archive/manifest.py writes the file,
and describes the rest of it, and how it is replaced atomically. The manifest has names of topics, but no topic ids.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metadata.topic_names import name_problem
from runtime.foreign_files import UnreadableFile, read_whole
from storage.checkpoints import TopicPartition

#: The path below the archive's directory.
MANIFEST = "_pybroker/manifest.json"
_FORMAT, _VERSION = "pybroker-archive", 1
#: The size limit: some 300,000 ranges and files. `pybroker archive --compact` reduces their number.
_FILE_BYTES = 64 << 20
_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """A manifest's contents: the first offset of each partition that is not archived, and the file's version."""

    ends: Mapping[TopicPartition, int]
    identity: tuple[int, int, int] = (0, 0, 0)


def read_archive(path: str, last: ArchiveProgress | None = None) -> ArchiveProgress:
    """Read how far the archive in a directory has read. An unchanged file is not read again: `last` is returned.

    Raises UnreadableFile for an invalid or incomplete manifest; OSError.
    """
    manifest = f"{path}/{MANIFEST}"
    found = os.stat(manifest)
    identity = found.st_ino, found.st_size, found.st_mtime_ns
    if last is not None and last.identity == identity:
        return last
    return ArchiveProgress(_ends(read_whole(manifest, _FILE_BYTES), manifest), identity)


def _ends(data: bytes, name: str) -> Mapping[TopicPartition, int]:
    try:
        # With a hook the loop gets its turn between two objects. Without it the whole file is one call.
        manifest = json.loads(data, object_hook=_without_files)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{name} is not JSON, or is incomplete") from None
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (_FORMAT, _VERSION):
        raise UnreadableFile(f"{name} has an unknown format")
    ranges = manifest.get("ranges")
    if not isinstance(ranges, list):
        raise UnreadableFile(f"{name} has no ranges")
    ends: dict[TopicPartition, int] = {}
    for number, each in enumerate(ranges):
        found = _range(each)
        if found is None:
            raise UnreadableFile(f"{name}: range number {number} is invalid")
        place, end = found
        ends[place] = max(end, ends.get(place, 0))
    return ends


def _without_files(fields: dict[str, Any]) -> dict[str, Any] | None:
    return None if "path" in fields else fields


def _range(fields: object) -> tuple[TopicPartition, int] | None:
    """Return the partition of a range, and its end; None if it is not a range."""
    if not isinstance(fields, dict):
        return None
    topic, partition, start, end = (fields.get(name) for name in ("topic", "partition", "start", "end"))
    if type(topic) is not str or name_problem(topic) is not None:
        return None
    if type(partition) is not int or type(start) is not int or type(end) is not int:
        return None
    if not 0 <= partition <= _INT_MAX or not 0 <= start <= end <= _LONG_MAX:
        return None
    return (topic, partition), end
