"""Move one partition to another log directory.

A worker copies the log into `<topic>-<partition>.<id>-future`, round by round (storage/moves/copy.py), until almost
nothing is left. The loop copies the rest, and in the same turn replaces the log with the copy (LogManager.replace): at
no time are there two logs of the partition, or none. The old log is removed once the new one is on disk
(replaced_log.py). During the move the cleaner leaves the log alone. Retention does not, since a full disk may be the
reason for the move. The copy takes over the log start offset.

If the partition is deleted, sent elsewhere, or has its replica on another broker, the copy is removed. If a directory
fails, the copy stays for the next start. An I/O error of a file fails the directory of that file: partitions are often
moved away from bad disks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from broker.replicas.partition import Partition
from protocol.records.errors import RecordsError
from runtime.deferred import Deferred
from runtime.process_pool import PoolProcessDied
from storage.directory_names import future_name
from storage.errors import SourceUnreadable, StorageError
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.moves.copy import (
    CopyJob,
    CopyProgress,
    append_rest,
    batch_head,
    first_offset,
    pieces_from,
    source_errors,
)
from storage.recovery.loading import load_log

if TYPE_CHECKING:
    from broker.maintenance.replica_moves import ReplicaMoves

log = logging.getLogger("broker.maintenance.replica_moves")  # both modules share one name and level

#: Bytes that a worker copies in a round. After each round the move decides whether to go on at once.
ROUND_BYTES = 64 << 20
#: Bytes that the loop copies at the end, in some milliseconds. If fast producers leave more than that in every round,
#: it doubles each time, so that the move ends.
REST_BYTES = 256 << 10
_PATIENT_ROUNDS = 8
#: How long to wait for the cleaner to release a log, and before a new worker after one that died.
_WAIT_MS, _AGAIN_MS = 50, 5_000


class Move:
    """A move, created and begun by `ReplicaMoves`. `end_offset` and `size_bytes` are the copy's last known ones."""

    def __init__(self, moves: ReplicaMoves, partition: Partition, directory: LogDirectory, path: str) -> None:
        self.partition = partition
        self.source: PartitionLog = partition.log
        self.directory = directory
        self.end_offset = 0
        self.size_bytes = 0
        self._moves = moves
        self._path = path
        self._copied: CopyProgress | None = None
        self._work: Deferred[CopyProgress] | None = None
        self._round_began_ms = 0
        self._rounds = 0
        self._over = False
        #: Whether the controller knows the new directory, although the log is still in the old one.
        self._assigned = False

    # -- end of a move -----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """End the move. The copy stays for the next start."""
        if not self._over:
            self._over = True
            if self.source.cleaning == self.interrupt:
                self.source.cleaning, self.source.copied = None, False
            if self._work is not None:
                self._work.cancel()
            if self._assigned:
                self._place(self.source.directory)
            self._moves.ended(self)

    def abandon(self) -> None:
        """End the move, and remove the copy: the log is closed, or has another target."""
        if not self._over:
            self.leave()
            self._moves.discard(self.directory, self._path, (self.partition.topic, self.partition.index))

    def interrupt(self) -> None:
        """End the move because the log is closed or truncated. After a truncation it is made again."""
        if not self._over:
            self.abandon()
            self._moves.begin_again(self.source, self.directory)

    def is_over(self) -> bool:
        """Return whether the move is over: a directory has failed, the log was closed, or its replica is elsewhere.

        In a cluster this broker may lead the partition after it has followed it, or the reverse.
        """
        if not (self.source.directory.is_online and self.directory.is_online):
            self.leave()
        elif self.source.closed:
            self.abandon()
        elif not self.partition.hosted:
            successor = self._moves.services.partitions.get(self.partition.topic, self.partition.index)
            if successor is not None and successor.open_log is self.source:
                self.partition = successor
            else:
                self.abandon()
        return self._over

    def _fail(self, error: Exception) -> None:
        """Fail the directory whose file caused the error. `LogDirectory.fail` knows which errors are the disk's."""
        if isinstance(error, SourceUnreadable):
            if not self._is_expired(error.error):
                self.source.directory.fail(error.error)
        elif isinstance(error, OSError):
            self.directory.fail(error)
        else:
            log.error("%s cannot be moved to %s: %s", self.partition, self.directory.path, error)
            self.abandon()
        if not self.is_over():
            self._try_again(error)

    def _is_expired(self, error: OSError) -> bool:
        """Return whether the error is about a file that retention has removed meanwhile."""
        left = {segment.log.path for segment in self.source.segments}
        return isinstance(error, FileNotFoundError) and error.filename not in left

    def _try_again(self, error: Exception) -> None:
        """Retry after a delay, with the part of the copy that is intact then."""
        log.warning("%s is not moved now: %s", self.partition, error)
        self._copied = None
        self._after(_AGAIN_MS)

    # -- rounds ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Wait for the cleaner to release the log, and check what exists of a copy."""
        if self.is_over():
            return
        if self.source.cleaning is not None:
            self.source.cleaning()
        if self.source.cleaning is not None:
            self._after(_WAIT_MS)
            return
        self.source.cleaning, self.source.copied = self.interrupt, True
        self._round()

    def _after(self, delay_ms: int) -> None:
        self._moves.services.timers.call_later(
            delay_ms, self.begin if self.source.cleaning != self.interrupt else self._round
        )

    def _round(self) -> None:
        if self.is_over():
            return
        rate = self._moves.bytes_per_second
        most_bytes = min(ROUND_BYTES, rate)
        try:
            copied = self._copied
            with source_errors():
                pieces = () if copied is None else pieces_from(self.source, copied.end_offset, ROUND_BYTES)
            rest_bytes = REST_BYTES << max(0, self._rounds - _PATIENT_ROUNDS)
            left_bytes = sum(each.end - each.position for each in pieces)
            if copied is not None and left_bytes <= min(rest_bytes, rate):
                if not self._wait_for_assignment():
                    self._take_place(copied)
                return
            stored = self._stored(copied, clean=copied is not None)
            job = CopyJob(self.directory.path, stored, self.source.topic_id, pieces, most_bytes)
        except (OSError, StorageError, RecordsError) as error:
            self._fail(error)
            return
        self._round_began_ms = self._moves.services.clock.monotonic_ms()
        self._work = self._moves.submit(job)
        self._work.add_done_callback(self._on_copied)

    def _stored(self, copied: CopyProgress | None, *, clean: bool) -> StoredLog:
        """Return the copy, to be opened; `clean` if a round has completed it, or if its opener keeps it so."""
        return StoredLog(
            self._path,
            self.source.topic,
            self.source.partition,
            self.source.config,
            self._moves.services.clock.now_ms(),
            clean=clean,
            recovered=not clean and copied is not None,
            recovery_point=0 if clean or copied is None else copied.end_offset,
            log_start_offset=self._first_offset(copied),
            producer_expiration_ms=self._moves.services.logs.producer_expiration_ms,
        )

    def _first_offset(self, copied: CopyProgress | None) -> int:
        """Return where an empty or outdated copy has to begin. Raises SourceUnreadable."""
        oldest = self.source.segments[0].base_offset
        if copied is None or (copied.size_bytes and copied.end_offset >= oldest):
            return 0
        with source_errors():
            return first_offset(self.source)

    def _on_copied(self, work: Deferred[CopyProgress]) -> None:
        if self._over:
            return
        self._work = None
        try:
            copied = work.result()
            is_right = self._copied is not None or self._is_right(copied)
        except PoolProcessDied as died:
            self._try_again(died)
            return
        except Exception as error:
            self._fail(error)
            return
        if not is_right:
            log.warning("The copy %s does not match %s: it is made again from the start", self._path, self.partition)
            self._moves.discard(self.directory, self._path, (self.partition.topic, self.partition.index))
            self._path = f"{self.directory.path}/{future_name(self.partition.topic, self.partition.index, uuid4().hex)}"
            self._round()
            return
        new_bytes = copied.size_bytes - self.size_bytes if self._copied is not None else 0
        # Count only rounds that could copy everything: a large log, or a slow move, takes many others.
        self._rounds += new_bytes < ROUND_BYTES // 2
        self._copied = copied
        self.end_offset, self.size_bytes = copied.end_offset, copied.size_bytes
        due_ms = new_bytes * 1000 // self._moves.bytes_per_second
        took_ms = self._moves.services.clock.monotonic_ms() - self._round_began_ms
        if due_ms > took_ms:
            self._after(due_ms - took_ms)
        else:
            self._round()

    def _is_right(self, copied: CopyProgress) -> bool:
        """Return whether an existing copy is a part of the log. Raises SourceUnreadable."""
        if not copied.last_batch or copied.end_offset < self.source.segments[0].base_offset:
            return True
        with source_errors():
            return copied.last_batch == batch_head(self.source, copied.end_offset - 1)

    # -- replacing the log -------------------------------------------------------------------------------------------

    def _wait_for_assignment(self) -> bool:
        """Assign the new directory in a cluster. Return whether the move has to wait for the controller."""
        services, partition = self._moves.services, self.partition
        directory_id = services.directory_ids.get(self.directory.path)
        if services.assign_first is None or self._assigned or directory_id is None:
            return False
        self._assigned = True
        assigned = services.assign_first(partition.topic_id, partition.index, directory_id)
        assigned.add_done_callback(lambda _: self._round())
        return True

    def _take_place(self, copied: CopyProgress) -> None:
        """Copy the rest, and replace the log with the copy. After OSError or StorageError the log stays."""
        services, source, partition = self._moves.services, self.source, self.partition
        new = self._completed(copied)
        self._assigned = False
        self.leave()
        services.logs.replace(new)
        partition.swap_log(new)
        services.cleaner.moved(source, new)
        self._place(self.directory)
        self._moves.replaced(source, new)
        log.info("%s is in %s now", partition, self.directory.path)

    def _completed(self, copied: CopyProgress) -> PartitionLog:
        """Return the complete copy, opened under the partition's name.

        After OSError or StorageError it has its old name again. If two directories kept the partition's name, their
        logs would diverge.
        """
        fs, name = self.directory.fs, f"{self.directory.path}/{self.source.name}"
        stored = self._stored(copied, clean=False)._replace(path=name)
        fs.rename(self._path, name)
        new: PartitionLog | None = None
        try:
            new = load_log(self.directory, stored)
            append_rest(new, self.source, stored.now_ms)
            if self.source.replicated:
                new.begin_replication(self.source.high_watermark)
            self.partition.note_epoch(new)
        except BaseException:
            if new is not None:
                new.close_files()
            fs.rename(name, self._path)
            raise
        new.mark_unsynced(name)
        new.mark_unsynced(self.directory.path)
        return new

    def _place(self, directory: LogDirectory) -> None:
        """Record the partition's directory in the metadata. If that fails, the next start finds it."""
        services, partition = self._moves.services, self.partition
        directory_id = services.directory_ids.get(directory.path)
        if directory_id is None:
            return
        placed = [(partition.topic_id, partition.index, directory_id)]
        try:
            services.placements.record_placements(placed)
        except (OSError, StorageError) as error:
            log.warning("The move of %s cannot be recorded in the metadata: %s", partition, error)
