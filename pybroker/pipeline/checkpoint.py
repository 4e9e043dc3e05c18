"""The checkpoint of a query: its progress, and the query that owns it.

Spark's files are read, never written: `offsets/N` holds the end of batch N, and `commits/N` exists once the batch is
done. A file of ours beside them identifies the query that the checkpoint was made for. Only local folders are read.

When a query writes files, Spark lists the files of batch N in their folder, in `_spark_metadata/N` or `N.compact`. It
treats a listed batch as done, even if another query wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_IDENTITY = "pybroker.json"
_LISTED, _COMPACTED = "_spark_metadata", ".compact"

# topic -> partition -> offset that is read next
Offsets = Mapping[str, Mapping[int, int]]


class CheckpointError(Exception):
    """The checkpoint belongs to another query, or its files are not Spark's."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a query."""

    batch: int | None = None  # the last batch that is done; None before the first
    offsets: Offsets = field(default_factory=dict)  # the end of that batch
    watermark_ms: int = 0
    running: int | None = None  # a batch that is planned but not done


def local(location: str) -> Path | None:
    """Return the folder of a checkpoint; None when it is not in the local file system."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location)


def progress(folder: Path) -> Progress:
    """Read the progress of a query.

    Errors: CheckpointError for files that are not Spark's; OSError.
    """
    planned, done = _batches(folder / "offsets"), _batches(folder / "commits")
    last = max((number for number in done if number in planned), default=None)
    running = max(planned, default=None)
    if running is not None and last is not None and running <= last:
        running = None
    if last is None:
        return Progress(running=running)
    metadata, offsets = _read_offsets(planned[last])
    return Progress(last, offsets, metadata.get("batchWatermarkMs", 0), running)


def check_files(folder: Path, files: Path) -> None:
    """Check that the files in the folder of a sink, if any, belong to the checkpoint in `folder`.

    Errors: CheckpointError when batches are listed that this checkpoint never planned; OSError.
    """
    listed = max(_batches(files / _LISTED), default=None)
    if listed is not None and listed > max(_batches(folder / "offsets"), default=-1):
        raise CheckpointError(
            f"{files} has files of another or a removed checkpoint, up to batch {listed}: Spark would "
            f"treat the batches of {folder} up to that as done, and lose their rows: choose another path, or remove "
            "these files with the checkpoint"
        )


def claim(folder: Path, identity: Mapping[str, str]) -> None:
    """Claim the checkpoint for this query, unless it belongs to another one.

    Errors: CheckpointError with what differs; OSError.
    """
    written = folder / _IDENTITY
    check(folder, identity)
    if not written.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f".{_IDENTITY}"
        scratch.write_text(json.dumps(identity, indent=1) + "\n", encoding="utf-8")
        scratch.rename(written)


def check(folder: Path, identity: Mapping[str, str]) -> None:
    """Check that the checkpoint belongs to this query, or to none yet.

    Errors: CheckpointError with what differs; OSError.
    """
    written = folder / _IDENTITY
    if not written.is_file():
        if (folder / "offsets").exists():
            raise CheckpointError(f"the checkpoint {folder} was made by something else: {_REMEDY}")
        return
    try:
        found = json.loads(written.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{written} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{written} is damaged: it is not an object")
    for name, value in identity.items():
        if found.get(name) != value:
            change = f"{name} was {found.get(name)!r}, is {value!r}"
            raise CheckpointError(f"the checkpoint {folder} is of another specification: {change}: {_REMEDY}")


_REMEDY = "choose another name or checkpoint_root, or remove the folder to start again"


def _batches(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    numbered = [(file.name.removesuffix(_COMPACTED), file) for file in folder.iterdir()]
    return {int(number): file for number, file in numbered if number.isdecimal()}


def _read_offsets(file: Path) -> tuple[Mapping[str, Any], Offsets]:
    """Read a file of Spark's offset log: a version, the batch's metadata, then a line for each source."""
    version, *lines = file.read_text(encoding="utf-8").splitlines() or [""]
    if version != "v1" or not lines:
        raise CheckpointError(f"{file}: version {version!r} of Spark's offset log is not known")
    try:
        metadata, *sources = (json.loads(line) for line in lines if line not in ("-", ""))
        return metadata, _merged(sources)
    except (ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file} is none of Spark's: {error}") from error


def _merged(sources: list[Mapping[str, Mapping[str, int]]]) -> Offsets:
    """Merge the offsets of sources; for a partition that several read, the lowest offset counts."""
    merged: dict[str, dict[int, int]] = {}
    for source in sources:
        for topic, partitions in source.items():
            known = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[int(partition)] = min(offset, known.get(int(partition), offset))
    return merged
