"""Decide which of two directories of one partition a start uses: the log or its copy.

A copy replaces a log in memory at once, but on the disk in three steps (broker/maintenance/replica_move.py):

    1  <copy>-future -> <topic>-<partition>         in its directory: both exist, the copy is a prefix of the log
    2  appends go to the copy; it is forced to the disk
    3  the log's directory -> ...-delete            when the copy has everything that was acknowledged

A crash before step 3 leaves both. The shorter one is part of the longer one, which is kept. Records deleted by
DeleteRecords stay deleted, whichever of the two knows it; until step 2 is complete, that is the log.

If a disk fails before step 3, its directory may return after retention or a cleaner has removed from the other log the
records at the end of this one. Then the log in the directory that the metadata names is kept, and the other is set
aside, so nothing of it is lost. If the other one has later records, it is no old copy, and the broker does not start.

A directory whose segments are all lost is part of any other log of the partition.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.checkpoints import read_topic_id
from storage.errors import DirectoryRefused, LogOffline
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.moves.copy import batch_head, last_batch
from storage.recovery.log_dir_scan import FutureLog
from storage.segment.files import LOG_SUFFIX


class DuplicateDecision(NamedTuple):
    """The decision between two logs of a partition that a start found.

    `is_part`: the log in `discarded` has no record that the kept one lacks.
    """

    kept: PartitionLog
    discarded: PartitionLog
    is_part: bool


def settle_duplicates(one: PartitionLog, other: PartitionLog, assigned_dir: str | None) -> DuplicateDecision:
    """Decide which log to keep. `assigned_dir` is the log directory that the metadata assigns to the partition.

    A directory that fails meanwhile goes offline; then neither log is removed. Raises DirectoryRefused if the logs
    differ, and the metadata names neither or the shorter one. Raises LogOffline if they cannot be compared because no
    descriptor is free.
    """
    shorter, longer = sorted((one, other), key=lambda each: (each.log_end_offset, each.directory.path == assigned_dir))
    try:
        if _is_part_of(shorter, longer):
            return DuplicateDecision(longer, shorter, is_part=True)
    except LogOffline:
        if one.directory.is_online and other.directory.is_online:
            raise
    named = [each for each in (one, other) if each.directory.path == assigned_dir]
    may_set_aside = longer in named or (bool(named) and not _are_of_one_topic(one, other))
    if not may_set_aside and one.directory.is_online and other.directory.is_online:
        raise DirectoryRefused(
            other.path,
            f"the partition exists twice with different records, also in {one.path}. Move the wrong one elsewhere",
        )
    kept = named[0] if named else one
    return DuplicateDecision(kept, other if kept is one else one, is_part=False)


def _are_of_one_topic(one: PartitionLog, other: PartitionLog) -> bool:
    return None in (one.topic_id, other.topic_id) or one.topic_id == other.topic_id


def without_lost_segments(directory: LogDirectory, stored: StoredLog) -> StoredLog:
    """Return how to open one of two logs of a partition: from offset 0 if all its segments are lost.

    A lone log continues at the offset where it had ended instead. Then this one would seem to be the longer one.
    """
    try:
        names = directory.fs.names(stored.path)
    except OSError:  # opening the log fails too, and reports it
        return stored
    if any(name.endswith(LOG_SUFFIX) for name in names):
        return stored
    return stored._replace(clean=False, recovered=False, in_order=False, recovery_point=0)


def _is_part_of(shorter: PartitionLog, longer: PartitionLog) -> bool:
    """Return whether `shorter` is the beginning of `longer`. If so, `longer` gets its log start offset. Raises
    LogOffline.
    """
    if not _are_of_one_topic(shorter, longer):
        return False
    for log in (shorter, longer):
        log.check_usable()
    with shorter.directory.offline_on_error():
        head = last_batch(shorter)
    with longer.directory.offline_on_error():
        if head and head != batch_head(longer, shorter.log_end_offset - 1):
            return False
        longer.raise_log_start(shorter.log_start_offset)
    return True


def orphan_copy(futures: list[FutureLog], topic: str, partition: int, topic_id: bytes) -> FutureLog | None:
    """Remove and return from `futures` the copy of a partition whose log is missing, or None.

    An incomplete copy is better than no log.
    """
    for future in futures:
        found = (future.topic, future.partition, read_topic_id(future.directory.fs, future.path))
        if future.directory.is_online and found == (topic, partition, topic_id):
            futures.remove(future)
            return future
    return None
