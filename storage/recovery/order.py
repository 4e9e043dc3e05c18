"""Decide by file names which logs can be opened later after a clean shutdown.

A start inspects every log, so it reads only names and a few sizes. A log that is in order by these can be opened while
clients are served. Nothing has to be repaired then, except what the names do not show.
"""

from __future__ import annotations

from collections.abc import Collection

from storage.fs import FileSystem
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.log.tasks import DELETED_SUFFIX
from storage.log_config import LogConfig
from storage.segment.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)

#: A log with more files takes too long to open while clients are served. A segment has three files and takes about 35
#: us.
_MOST_FILES = 100
#: The total size of the files that are read as a whole: 1,400 producers, which take 10 ms.
_MOST_BYTES_READ = 64 << 10
#: Each of these files is opened and read.
_MOST_TXN_INDEXES = 4
#: The last batch of a log begins at most one index interval after the last index entry, so a larger interval makes it
#: slower to find.
_MOST_INDEX_INTERVAL_BYTES = 64 << 10
#: Endings of files that an interrupted operation leaves.
_UNFINISHED = frozenset((DELETED_SUFFIX, SWAP_SUFFIX, CLEANED_SUFFIX, ".tmp"))


def opens_quickly(config: LogConfig) -> bool:
    """Return whether a log with this configuration opens quickly, if it is in order."""
    return config.index_interval_bytes <= _MOST_INDEX_INTERVAL_BYTES


def has_small_files(fs: FileSystem, path: str, names: Collection[str], recovery_point: int) -> bool:
    """Return whether the files with these `names` that opening a log reads are small. Raises OSError.

    They are the producer snapshot, the leader epochs and the transaction indexes.
    """
    txn_indexes = [name for name in names if name.endswith(TXN_INDEX_SUFFIX)]
    if len(txn_indexes) > _MOST_TXN_INDEXES:
        return False
    read = {LEADER_EPOCHS, file_name(recovery_point, SNAPSHOT_SUFFIX), *txn_indexes}
    return sum(fs.size_of(f"{path}/{name}") for name in read.intersection(names)) <= _MOST_BYTES_READ


def is_in_order(names: Collection[str], recovery_point: int, log_start_offset: int) -> bool:
    """Return whether files with these `names` are those of a log that was closed when it ended at `recovery_point`."""
    if len(names) > _MOST_FILES:
        return False
    stems: dict[str, set[str]] = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        stems.setdefault(f".{ending}", set()).add(stem)
    logs = stems.get(LOG_SUFFIX)
    if not logs or stems.get(INDEX_SUFFIX) != logs or stems.get(TIME_INDEX_SUFFIX) != logs:
        return False
    if not (stems.get(TXN_INDEX_SUFFIX, logs) <= logs and _UNFINISHED.isdisjoint(stems)):
        return False
    end = file_name(recovery_point, "")
    is_empty = end == max(min(logs), file_name(log_start_offset, ""))
    return is_empty or (LEADER_EPOCHS in names and end in stems.get(SNAPSHOT_SUFFIX, ()))
