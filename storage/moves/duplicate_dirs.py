"""Two directories of one partition, a log and its copy: which of them a start takes.

A copy takes the place of a log in memory at once, and on the disk one name after the other
(broker/maintenance/replica_move.py):

    1  <copy>-future -> <topic>-<partition>         in its directory: both are there, the copy as a part of the log
    2  appends go to the copy; it is forced to the disk
    3  the log's directory -> ...-delete             when all that was acknowledged is in the copy

A crash before 3 leaves both. The shorter one is a part of the longer one, which stays. What was deleted by
DeleteRecords stays deleted, whichever of them knows it: until 2 is done, that is the log.

If a disk fails before 3, its directory may come back when retention, or a cleaner, has removed from the other what this
one ends with. Then the one that the metadata names stays, and nothing of the other is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.checkpoints import read_topic_id
from storage.errors import DirectoryRefused, LogOffline
from storage.log.partition_log import PartitionLog
from storage.moves.copy import batch_head, last_batch
from storage.recovery.log_dir_scan import FutureLog


class Settled(NamedTuple):
    """Of two logs of a partition, found at a start, the one that stays and the one that goes.

    `is_part`: what goes has nothing that the other has not.
    """

    kept: PartitionLog
    gone: PartitionLog
    is_part: bool


def settle_twins(one: PartitionLog, other: PartitionLog, place: str | None) -> Settled:
    """`place`: the log directory in which the metadata has the partition.

    A directory that fails meanwhile goes offline, and none of its logs goes; nor does the other one. DirectoryRefused:
    they differ, and the metadata has neither. LogOffline: they cannot be compared, as no descriptor is left.
    """
    shorter, longer = sorted((one, other), key=lambda each: (each.log_end_offset, each.directory.path == place))
    try:
        if _is_part_of(shorter, longer):
            return Settled(longer, shorter, is_part=True)
    except LogOffline:
        if one.directory.is_online and other.directory.is_online:
            raise
    named = [each for each in (one, other) if each.directory.path == place]
    if not named and one.directory.is_online and other.directory.is_online:
        raise DirectoryRefused(other.path, f"is there twice, also as {one.path}, with other records")
    kept = named[0] if named else one
    return Settled(kept, other if kept is one else one, is_part=False)


def _is_part_of(shorter: PartitionLog, longer: PartitionLog) -> bool:
    """Whether one log, of the same topic, is the beginning of another; if so, that takes over its start. LogOffline."""
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


def orphan(futures: list[FutureLog], topic: str, partition: int, topic_id: bytes) -> FutureLog | None:
    """The copy of a partition whose log is not there: better than nothing. It is taken out of `futures`."""
    for future in futures:
        found = (future.topic, future.partition, read_topic_id(future.directory.fs, future.path))
        if future.directory.is_online and found == (topic, partition, topic_id):
            futures.remove(future)
            return future
    return None
