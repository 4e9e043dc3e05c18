"""The recovery of one partition as a job for a worker process: values in, values out.

It leaves the directory as a clean shutdown does, but not forced to the disk. The caller then opens the log as
`recovered`.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.recovery.loading import load_log
from storage.recovery.segment import Cut
from storage.segment.files import LOG_SUFFIX


class RecoveryJob(msgspec.Struct, frozen=True):
    """A partition to recover. `size_bytes` is the size of the segments to read."""

    log_dir: str
    log: StoredLog
    size_bytes: int


class Recovered(msgspec.Struct, frozen=True):
    """The bytes that were cut off, and one line per small file that was rebuilt."""

    cuts: list[Cut]
    remarks: list[str]


def recover_partition(job: RecoveryJob, fs: FileSystem = LOCAL) -> Recovered:
    """Recover a partition.

    Raises OSError or StorageError; then the directory is unchanged or the recovery is half done.
    """
    directory = LogDirectory(job.log_dir, fs)
    cuts: list[Cut] = []
    log = load_log(directory, job.log, cuts)
    log.close()
    return Recovered(cuts, directory.remarks)


def size_of_segments(fs: FileSystem, path: str) -> int:
    """Return the size of all segments of a log in bytes. Raises OSError."""
    return unchecked_bytes(fs, path, 0)


def unchecked_bytes(fs: FileSystem, path: str, recovery_point: int) -> int:
    """Return the size of the segments that recovery from `recovery_point` reads, in bytes. Raises OSError."""
    sizes = {entry.name: entry.size_bytes for entry in fs.list(path) if entry.name.endswith(LOG_SUFFIX)}
    names = sorted(sizes)
    first = bisect_right(names, f"{recovery_point:020d}{LOG_SUFFIX}") - 1
    return sum(sizes[name] for name in names[max(0, first) :])
