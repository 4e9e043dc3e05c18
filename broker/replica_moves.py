"""Partitions that move from one log directory to another while they are read and written (KIP-113).

A worker copies what is there into `<topic>-<partition>.<id>-future`, round by round (storage/moves/copy.py), until next
to nothing is left. The rest is copied on the loop, and in the same turn the copy takes the place of the log
(LogManager.replace): nobody finds a moment in which there are two of them or none. The log that was goes once the new
one is on the disk (broker/replaced_log.py). Meanwhile neither the cleaner nor retention touches it.

A move that a stop or a crash interrupted goes on with what was copied. If the partition is deleted, or sent elsewhere,
the copy goes; if one of the directories fails, it stays for the next start. Whose file cannot be read or written is
whose directory fails: the old disk going bad is what partitions are moved away for.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from broker.deferred import Deferred
from broker.partition import Partition
from broker.replaced_log import ReplacedLog
from broker.workers import WorkerDied, Workers
from metadata.image import ResourceType
from metadata.lifecycle import assign_directories
from protocol.errors import ErrorCode
from protocol.records.errors import RecordsError
from storage.checkpoints import read_topic_id
from storage.directory_names import delete_name, future_name
from storage.errors import SourceUnreadable, StorageError
from storage.log.directory import LogDirectory
from storage.log.partition import PartitionLog
from storage.log_config import LONG_MAX
from storage.moves.copy import (
    Copied,
    CopyJob,
    append_rest,
    batch_head,
    copy_batches,
    first_offset,
    of_source,
    pieces_from,
)
from storage.recovery.loading import load_log
from storage.recovery.stored_log import StoredLog

if TYPE_CHECKING:
    from broker.broker import Broker

log = logging.getLogger(__name__)

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
NICENESS = 10
#: Copied by a worker at a time; then it is seen how far it got, and whether it may go on at once.
ROUND_BYTES = 64 << 20
#: What is copied on the loop at the end: some milliseconds. Where round after round finds more than that, as producers
#: are that fast, it is twice as much each time: a move has to come to its end.
REST_BYTES = 256 << 10
_PATIENT_ROUNDS = 8
#: How long to wait for a cleaner to let go of a log, and before another worker after one that died.
_WAIT_MS, _AGAIN_MS = 50, 5_000
#: Partitions that are not there, of which it is remembered where they are to be made.
_MOST_PREFERRED = 10_000

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class FutureReplica:
    """A copy under way. `lag`: how many offsets it is behind."""

    topic: str
    partition: int
    directory: LogDirectory
    size_bytes: int
    lag: int


class ReplicaMoves:
    """All moves of a broker. Its methods belong to the event loop's thread. `make_workers`: a pool of so many."""

    def __init__(self, broker: Broker, make_workers: Callable[[int], Workers] | None = None) -> None:
        self.broker = broker
        self._make_workers = make_workers or partial(Workers, loop=broker.loop, name="move", niceness=NICENESS)
        self._moves: dict[Key, _Move] = {}
        self._replaced: list[ReplacedLog] = []
        self._workers: Workers | None = None
        self._closed = False

    def start(self) -> None:
        """Go on with what was interrupted; copies that nobody wants any more go."""
        broker = self.broker
        for future in broker.logs.futures:
            key = future.topic, future.partition
            partition = broker.partitions.get(*key)
            if partition is not None and not partition.online:
                continue
            topic_id = read_topic_id(future.directory.fs, future.path)
            is_wanted = (
                partition is not None
                and topic_id in (None, partition.topic_id)
                and partition.log.directory is not future.directory
                and key not in self._moves
            )
            if partition is not None and is_wanted:
                self._begin(partition, future.directory, future.path)
            else:
                self._discard(future.directory, future.path, key)
        broker.logs.futures.clear()

    def close(self) -> None:
        """Leave all moves where they are: they go on after the next start."""
        self._closed = True
        for move in list(self._moves.values()):
            move.leave()
        for replaced in self._replaced:
            replaced.leave()
        if self._workers is not None:
            self._workers.close()

    def futures(self) -> Iterator[FutureReplica]:
        """The copies under way."""
        for (topic, index), move in self._moves.items():
            lag = max(move.source.log_end_offset - move.end_offset, 0)
            yield FutureReplica(topic, index, move.directory, move.size_bytes, lag)

    def alter(self, topic: str, index: int, path: str) -> ErrorCode:
        """Move a partition to the log directory of that path, which has to be its whole name."""
        logs, key = self.broker.logs, (topic, index)
        name = future_name(topic, index, uuid4().hex)
        if name is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = next((each for each in logs.directories if os.path.abspath(each.path) == path), None)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not directory.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.broker.partitions.get(*key)
        if partition is None:
            if len(logs.preferred) < _MOST_PREFERRED:
                logs.preferred[key] = directory
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not partition.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self._moves.get(key)
        if move is not None and not move.is_over():
            if move.directory is directory:
                return ErrorCode.NONE
            move.abandon()
        if directory is partition.log.directory:
            return ErrorCode.NONE
        if not all(each.is_online for each in logs.directories):  # the copy may be there already, and not be seen
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin(partition, directory, f"{directory.path}/{name}")
        return ErrorCode.NONE

    def _begin(self, partition: Partition, directory: LogDirectory, path: str) -> None:
        log.info("%s moves from %s to %s", partition, partition.log.directory.path, directory.path)
        move = self._moves[partition.topic, partition.index] = _Move(self, partition, directory, path)
        move.begin()

    def _discard(self, directory: LogDirectory, path: str, key: Key) -> None:
        """Remove a copy, which may not be there yet."""
        if directory.is_online and directory.fs.exists(path):
            self.broker.logs.discard(directory, path, delete_name(*key, uuid4().hex), self.broker.clock.now_ms())

    def _ended(self, move: _Move) -> None:
        self._moves.pop((move.partition.topic, move.partition.index), None)

    def replaced(self, old: PartitionLog, new: PartitionLog) -> None:
        """A copy has taken the place of a log, which goes when the copy is on the disk."""
        self._replaced = [each for each in self._replaced if not each.is_over]
        self._replaced.append(ReplacedLog(self.broker, old, new))
        self._replaced[-1].flush()

    def submit(self, job: CopyJob) -> Deferred[Copied]:
        """Have a worker do a round."""
        if self._workers is None:
            threads = self.broker.config.get("num.replica.alter.log.dirs.threads")
            size = threads if isinstance(threads, int) and threads > 0 else 1
            self._workers = self._make_workers(size)
        return self._workers.submit(copy_batches, job)

    @property
    def bytes_per_second(self) -> int:
        """What a move may copy; the key can be set while the broker runs, and only then."""
        image, node_id = self.broker.controller.image, self.broker.config.node_id
        for name in (str(node_id), ""):
            text = image.config(ResourceType.BROKER, name).get(RATE_KEY)
            if text is not None:
                return max(int(text), 1)
        return LONG_MAX


class _Move:
    """One partition on its way. `end_offset` and `size_bytes` are the copy's, as far as is known."""

    def __init__(self, moves: ReplicaMoves, partition: Partition, directory: LogDirectory, path: str) -> None:
        self.partition = partition
        self.source: PartitionLog = partition.log
        self.directory = directory
        self.end_offset = 0
        self.size_bytes = 0
        self._moves = moves
        self._path = path
        self._copied: Copied | None = None
        self._work: Deferred[Copied] | None = None
        self._round_began_ms = 0
        self._rounds = 0
        self._over = False

    # -- ends --------------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """End; the copy stays for the next start."""
        if not self._over:
            self._over = True
            if self.source.cleaning == self.abandon:
                self.source.cleaning = None
            if self._work is not None:
                self._work.cancel()
            self._moves._ended(self)

    def abandon(self) -> None:
        """End; the copy goes: the log is closed, or is to be elsewhere."""
        if not self._over:
            self.leave()
            self._moves._discard(self.directory, self._path, (self.partition.topic, self.partition.index))

    def is_over(self) -> bool:
        """Whether nothing is left to do: it ends where a directory has failed meanwhile, or the log was closed."""
        if not (self.source.directory.is_online and self.directory.is_online):
            self.leave()
        elif self.source.closed:
            self.abandon()
        return self._over

    def _fail(self, error: Exception) -> None:
        """Whose file it is is whose directory fails; for anything else the move is given up."""
        if isinstance(error, SourceUnreadable):
            self.source.directory.fail(error.error)
            self.leave()
        elif isinstance(error, OSError):
            self.directory.fail(error)
            self.leave()
        else:
            log.error("%s cannot be moved to %s: %s", self.partition, self.directory.path, error)
            self.abandon()

    # -- rounds ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Get hold of the log, which a cleaner may be at, and look at what there is of a copy."""
        if self.is_over():
            return
        if self.source.cleaning is not None:
            self.source.cleaning()
        if self.source.cleaning is not None:
            self._after(_WAIT_MS)
            return
        self.source.cleaning = self.abandon
        self._round()

    def _after(self, delay_ms: int) -> None:
        broker = self._moves.broker
        broker.timers.call_later(delay_ms, self.begin if self.source.cleaning != self.abandon else self._round)

    def _round(self) -> None:
        if self.is_over():
            return
        rate = self._moves.bytes_per_second
        most_bytes = min(ROUND_BYTES, rate)
        try:
            copied = self._copied
            with of_source():
                pieces = () if copied is None else pieces_from(self.source, copied.end_offset, ROUND_BYTES)
            rest_bytes = REST_BYTES << max(0, self._rounds - _PATIENT_ROUNDS)
            left_bytes = sum(each.end - each.position for each in pieces)
            if copied is not None and left_bytes <= min(rest_bytes, rate):
                self._take_place(copied)
                return
            stored = self._stored(copied, clean=copied is not None)
            job = CopyJob(self.directory.path, stored, self.source.topic_id, pieces, most_bytes)
        except (OSError, StorageError, RecordsError) as error:
            self._fail(error)
            return
        self._round_began_ms = self._moves.broker.clock.monotonic_ms()
        self._work = self._moves.submit(job)
        self._work.add_done_callback(self._on_copied)

    def _stored(self, copied: Copied | None, *, clean: bool) -> StoredLog:
        """The copy, to be opened; `clean` as a round has left it, or by whoever has it open from then on."""
        return StoredLog(
            self._path,
            self.source.topic,
            self.source.partition,
            self.source.config,
            self._moves.broker.clock.now_ms(),
            clean=clean,
            recovered=not clean and copied is not None,
            recovery_point=0 if clean or copied is None else copied.end_offset,
            log_start_offset=self._first_offset(copied),
            producer_expiration_ms=self._moves.broker.logs.producer_expiration_ms,
        )

    def _first_offset(self, copied: Copied | None) -> int:
        """Where the copy has to begin if it is empty, or ends before what the log has. SourceUnreadable."""
        oldest = self.source.segments[0].base_offset
        if copied is None or (copied.size_bytes and copied.end_offset >= oldest):
            return 0
        with of_source():
            return first_offset(self.source)

    def _on_copied(self, work: Deferred[Copied]) -> None:
        if self._over:
            return
        self._work = None
        try:
            copied = work.result()
            is_right = self._copied is not None or self._is_right(copied)
        except WorkerDied as died:
            log.warning("%s is not moved now: %s", self.partition, died)
            self._copied = None
            self._after(_AGAIN_MS)
            return
        except Exception as error:
            self._fail(error)
            return
        if not is_right:
            log.warning("The copy %s is not of %s as it is now: it is made anew", self._path, self.partition)
            self._moves._discard(self.directory, self._path, (self.partition.topic, self.partition.index))
            self._path = f"{self.directory.path}/{future_name(self.partition.topic, self.partition.index, uuid4().hex)}"
            self._round()
            return
        new_bytes = copied.size_bytes - self.size_bytes if self._copied is not None else 0
        # Only those count in which all there was could be copied: a large log, or a slow move, takes many others.
        self._rounds += new_bytes < ROUND_BYTES // 2
        self._copied = copied
        self.end_offset, self.size_bytes = copied.end_offset, copied.size_bytes
        due_ms = new_bytes * 1000 // self._moves.bytes_per_second
        took_ms = self._moves.broker.clock.monotonic_ms() - self._round_began_ms
        if due_ms > took_ms:
            self._after(due_ms - took_ms)
        else:
            self._round()

    def _is_right(self, copied: Copied) -> bool:
        """Whether what was found of a copy is part of the log. SourceUnreadable."""
        if not copied.last_batch or copied.end_offset < self.source.segments[0].base_offset:
            return True
        with of_source():
            return copied.last_batch == batch_head(self.source, copied.end_offset - 1)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _take_place(self, copied: Copied) -> None:
        """Copy what is left, and go on with the copy. OSError, StorageError: the log stays."""
        broker, source, partition = self._moves.broker, self.source, self.partition
        now_ms = broker.clock.now_ms()
        path = f"{self.directory.path}/{source.name}"
        self.directory.fs.rename(self._path, path)
        self._path = path
        new = load_log(self.directory, self._stored(copied, clean=False))
        append_rest(new, source, now_ms)
        new.mark_unsynced(path)
        new.mark_unsynced(self.directory.path)
        self.leave()
        broker.logs.replace(new)
        partition.take_log(new)
        broker.cleaner.moved(source, new)
        self._tell_metadata()
        self._moves.replaced(source, new)
        log.info("%s is in %s now", partition, self.directory.path)

    def _tell_metadata(self) -> None:
        """Record where the partition is; what cannot be recorded, the next start finds out."""
        broker, partition = self._moves.broker, self.partition
        directory_id = broker.directory_ids.get(self.directory.path)
        if directory_id is None:
            return
        placed = [(partition.topic_id, partition.index, directory_id)]
        try:
            broker.controller.append(assign_directories(broker.controller.image, broker.config.node_id, placed))
        except (OSError, StorageError) as error:
            log.warning("The metadata cannot be told that %s has moved: %s", partition, error)
