"""Finish or undo what was in progress in a log's directory when its broker ended, before any file is opened.

Files that were being deleted are removed. Segments that a cleaner or a segment split was putting in place are put there
(rule R1, README).
"""

from __future__ import annotations

import re
from contextlib import suppress

from protocol.records.errors import CorruptBatch
from storage.checkpoints import PARTITION_METADATA
from storage.fs import FileSystem
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.log.tasks import DELETED_SUFFIX
from storage.log_config import INT_MAX
from storage.segment.files import CLEANED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, SUFFIXES, SWAP_SUFFIX, parse_file_name
from storage.segment.scan import scan_valid

#: Snapshots of the metadata log that are being deleted. Their owner removes them.
_FOREIGN_DELETED_SUFFIX = ".checkpoint.deleted"
#: The beginning of the names of segments and of snapshots of the metadata log.
_OFFSET = re.compile(r"[0-9]{20}[.-]")
_SMALL_FILES = (LEADER_EPOCHS, PARTITION_METADATA, "quorum-state")
#: The endings of file names when no operation is in progress.
_AT_REST = (*SUFFIXES, SNAPSHOT_SUFFIX, LEADER_EPOCHS, PARTITION_METADATA)


def _offset_of(name: str) -> int | None:
    """Return the offset in a file name; None for a foreign name."""
    parsed = parse_file_name(name)
    return None if parsed is None else parsed[0]


def _is_own(name: str) -> bool:
    """Return whether a broker writes files of this name. Foreign files are left alone (rule R1)."""
    return _OFFSET.match(name) is not None or name.startswith(_SMALL_FILES)


def finish_interrupted(fs: FileSystem, path: str, sizes: dict[str, int]) -> dict[str, int]:
    """Remove files that were being deleted and finish interrupted swaps. Return the remaining files with their sizes.

    A `.swap` file is complete: the segments that it replaces are removed, and it takes their place. It is removed
    itself if a `.cleaned` file has the same or a lower offset, because then other parts of its cleaning were not ready.
    """
    if all(name.endswith(_AT_REST) for name in sizes):
        return sizes
    kept = dict(sizes)
    cleaned = [_offset_of(name) for name in kept if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min((offset for offset in cleaned if offset is not None), default=INT_MAX << 32)

    def is_leftover(name: str) -> bool:
        if not _is_own(name):
            return False
        if name.endswith(SWAP_SUFFIX):
            return (_offset_of(name) or 0) >= first_cleaned
        return name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")) and not name.endswith(_FOREIGN_DELETED_SUFFIX)

    for name in [name for name in kept if is_leftover(name)]:
        fs.remove(f"{path}/{name}")
        del kept[name]
    swaps = [name for name in kept if name.endswith(SWAP_SUFFIX) and _is_own(name)]
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        low = min(_offset_of(name) or 0 for name in logs)
        high = max(_end_of(fs, f"{path}/{name}", _offset_of(name) or 0, kept[name]) for name in logs)
        for name in list(kept):
            offset = _offset_of(name)
            if offset is not None and low <= offset < high and not name.endswith(SWAP_SUFFIX):
                fs.remove(f"{path}/{name}")
                del kept[name]
    if swaps:
        fs.sync_path(path)  # after a power failure old segments must not exist beside the new ones
    # in order, so that after another crash the remaining .swap files do not cover one already in place
    for name in sorted(swaps):
        final = name.removesuffix(SWAP_SUFFIX)
        fs.rename(f"{path}/{name}", f"{path}/{final}")
        kept[final] = kept.pop(name)
    return kept


def _end_of(fs: FileSystem, path: str, base_offset: int, size_bytes: int) -> int:
    """Return the offset after the last whole batch of a segment file that has no index."""
    end = base_offset
    with fs.reading(path) as handle, suppress(CorruptBatch):
        for entry, _ in scan_valid(fs, handle, 0, size_bytes):
            end = entry.last_offset + 1
    return end
