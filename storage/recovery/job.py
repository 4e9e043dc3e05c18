"""The recovery of one partition as a job of its own, for a process beside others: values in, values out.

What it leaves in the directory is what a clean stop would leave, but not forced to the disk: whoever gave the job opens
the log as `recovered`.
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
    """A partition to be checked. `size_bytes` is what there is to be read of it."""

    log_dir: str
    log: StoredLog
    size_bytes: int


class Recovered(msgspec.Struct, frozen=True):
    """What had to be cut off, and a line for each small file that had to be made anew."""

    cuts: list[Cut]
    remarks: list[str]


def recover_partition(job: RecoveryJob, fs: FileSystem = LOCAL) -> Recovered:
    """Recover a partition. OSError, StorageError: then the directory is as it was, or the recovery is half done."""
    directory = LogDirectory(job.log_dir, fs)
    cuts: list[Cut] = []
    log = load_log(directory, job.log, cuts)
    log.close()
    return Recovered(cuts, directory.remarks)


def size_of_segments(fs: FileSystem, path: str) -> int:
    """The bytes of all segments of a log. OSError."""
    return unchecked_bytes(fs, path, 0)


def unchecked_bytes(fs: FileSystem, path: str, recovery_point: int) -> int:
    """The bytes of the segments that a recovery from `recovery_point` on reads. OSError."""
    sizes = {entry.name: entry.size_bytes for entry in fs.list(path) if entry.name.endswith(LOG_SUFFIX)}
    names = sorted(sizes)
    first = bisect_right(names, f"{recovery_point:020d}{LOG_SUFFIX}") - 1
    return sum(sizes[name] for name in names[max(0, first) :])
