"""Decide which of two directories of one partition a start uses: the log or its copy.

A copy replaces a log in memory at once, but on the disk in three steps (broker/maintenance/replica_move.py):

    1  <copy>-future -> <topic>-<partition>         in its directory: both exist, the copy is a prefix of the log
    2  appends go to the copy; it is forced to the disk
    3  the log's directory -> ...-delete            when the copy has everything that was acknowledged

A crash before step 3 leaves both. The shorter one is part of the longer one, which is kept. Records deleted by
DeleteRecords stay deleted, whichever of the two knows it; until step 2 is complete, that is the log.

If a disk fails before step 3, its directory may return after retention or a cleaner has removed from the other log the
records at the end of this one. Then the log in the directory that the metadata names is kept, and the other is set
aside, so nothing of it is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.checkpoints import read_topic_id
from storage.errors import DirectoryRefused, LogOffline
from storage.log.partition_log import PartitionLog
from storage.moves.copy import batch_head, last_batch
from storage.recovery.log_dir_scan import FutureLog


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
    differ and the metadata names neither. Raises LogOffline if they cannot be compared because no descriptor is free.
    """
    shorter, longer = sorted((one, other), key=lambda each: (each.log_end_offset, each.directory.path == assigned_dir))
    try:
        if _is_part_of(shorter, longer):
            return DuplicateDecision(longer, shorter, is_part=True)
    except LogOffline:
        if one.directory.is_online and other.directory.is_online:
            raise
    named = [each for each in (one, other) if each.directory.path == assigned_dir]
    if not named and one.directory.is_online and other.directory.is_online:
        raise DirectoryRefused(other.path, f"the partition exists twice with different records, also in {one.path}")
    kept = named[0] if named else one
    return DuplicateDecision(kept, other if kept is one else one, is_part=False)


def _is_part_of(shorter: PartitionLog, longer: PartitionLog) -> bool:
    """Return whether `shorter` is the beginning of `longer`. If so, `longer` gets its log start offset. Raises
    LogOffline.
    """
    if None not in (shorter.topic_id, longer.topic_id) and shorter.topic_id != longer.topic_id:
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
