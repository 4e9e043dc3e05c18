"""How far an archive of `pybroker archive` has come, out of its `_pybroker/manifest.json`.

Of that file only its ranges matter here, each of which is in the archive for good; what else is in it, and how it is
put there at once, is told by pybroker/archive/manifest.py, which writes it. It names topics, and has no ids of them.
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

#: Below the archive's directory.
MANIFEST = "_pybroker/manifest.json"
_FORMAT, _VERSION = "pybroker-archive", 1
#: Some 300,000 ranges and files, of which `pybroker archive --compact` makes fewer.
_FILE_BYTES = 64 << 20
_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """What a manifest says: of each partition the first offset that is not archived, and which file said it."""

    ends: Mapping[TopicPartition, int]
    identity: tuple[int, int, int] = (0, 0, 0)


def read_archive(path: str, last: ArchiveProgress | None = None) -> ArchiveProgress:
    """Read how far the archive in a directory has come; `last` is what was read before, which is not read again.

    Errors: UnreadableFile for what is no manifest, or only a part of one; OSError.
    """
    manifest = f"{path}/{MANIFEST}"
    found = os.stat(manifest)
    identity = found.st_ino, found.st_size, found.st_mtime_ns
    if last is not None and last.identity == identity:
        return last
    return ArchiveProgress(_ends(read_whole(manifest, _FILE_BYTES), manifest), identity)


def _ends(data: bytes, name: str) -> Mapping[TopicPartition, int]:
    try:
        # With a hook the loop has its turn between two objects: without it all of the file is one call.
        told = json.loads(data, object_hook=_without_files)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{name} is no JSON, or not all of it") from None
    if not isinstance(told, dict) or (told.get("format"), told.get("version")) != (_FORMAT, _VERSION):
        raise UnreadableFile(f"{name} is of a format that is not known here")
    ranges = told.get("ranges")
    if not isinstance(ranges, list):
        raise UnreadableFile(f"{name} has no ranges")
    ends: dict[TopicPartition, int] = {}
    for number, each in enumerate(ranges):
        found = _range(each)
        if found is None:
            raise UnreadableFile(f"{name}: number {number} of its ranges is none")
        place, end = found
        ends[place] = max(end, ends.get(place, 0))
    return ends


def _without_files(told: dict[str, Any]) -> dict[str, Any] | None:
    return None if "path" in told else told


def _range(told: object) -> tuple[TopicPartition, int] | None:
    """Whose offsets a range has, and where it ends; None for what is no range."""
    if not isinstance(told, dict):
        return None
    topic, partition, start, end = (told.get(name) for name in ("topic", "partition", "start", "end"))
    if type(topic) is not str or name_problem(topic) is not None:
        return None
    if type(partition) is not int or type(start) is not int or type(end) is not int:
        return None
    if not 0 <= partition <= _INT_MAX or not 0 <= start <= end <= _LONG_MAX:
        return None
    return (topic, partition), end
