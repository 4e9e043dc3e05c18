"""Two directories of one partition, a log and its copy: which of them a start takes.

A copy takes the place of a log in memory at once, and on the disk one name after the other (broker/replica_move.py):

    1  <copy>-future -> <topic>-<partition>         in its directory: both are there, the copy as a part of the log
    2  appends go to the copy; it is forced to the disk
    3  the log's directory -> ...-delete             when all that was acknowledged is in the copy

A crash before 3 leaves both. Of whichever of them is longer the other is a part: that one stays (`settle_twins`). What
was deleted by DeleteRecords stays deleted, whichever of them knows it: until 2 is done, that is the log.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.checkpoints import read_topic_id
from storage.errors import DirectoryRefused
from storage.log.partition import PartitionLog
from storage.moves.copy import is_part_of
from storage.recovery.found_directory import FutureLog


class Settled(NamedTuple):
    """Of two logs of a partition, found at a start, the one that stays and the one that goes."""

    kept: PartitionLog
    gone: PartitionLog


def settle_twins(one: PartitionLog, other: PartitionLog) -> Settled:
    """What goes has nothing that the other has not, too. Else DirectoryRefused."""
    shorter, longer = sorted((one, other), key=lambda each: each.log_end_offset)
    if not is_part_of(shorter, longer):
        raise DirectoryRefused(other.path, f"is there twice, also as {one.path}, with other records")
    longer.raise_log_start(shorter.log_start_offset)
    return Settled(longer, shorter)


def orphan(futures: list[FutureLog], topic: str, partition: int, topic_id: bytes) -> FutureLog | None:
    """The copy of a partition whose log is not there: better than nothing. It is taken out of `futures`."""
    for future in futures:
        found = (future.topic, future.partition, read_topic_id(future.directory.fs, future.path))
        if future.directory.is_online and found == (topic, partition, topic_id):
            futures.remove(future)
            return future
    return None
