"""Move partitions from one log directory to another while clients read and write them (KIP-113).

This module knows which moves are in progress; replica_move.py does one of them. A move that a stop or a crash
interrupted continues from its copy.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from broker.maintenance.replaced_log import ReplacedLog
from broker.replicas.partition import Partition
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from runtime.process_pool import ProcessPool
from storage.checkpoints import read_topic_id
from storage.directory_names import delete_name, future_name
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.maintenance.move_services import MoveServices
    from broker.maintenance.replica_move import Move
    from storage.moves.copy import CopyJob, CopyProgress

log = logging.getLogger(__name__)

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
NICENESS = 10
#: How long to wait before a copy is made again of a log that was truncated.
_AGAIN_MS = 100
#: The most partitions that do not exist yet whose preferred directories are remembered.
_MOST_PREFERRED = 10_000

Key = tuple[str, int]


class FutureReplica(msgspec.Struct, frozen=True):
    """A copy in progress. `lag`: how many offsets it is behind."""

    topic: str
    partition: int
    directory: LogDirectory
    size_bytes: int
    lag: int


class ReplicaMoves:
    """All moves of a broker. Its methods belong to the event loop's thread. `make_workers` creates a process pool."""

    def __init__(self, services: MoveServices, make_workers: Callable[[int], ProcessPool] | None = None) -> None:
        self.services = services
        self._make_workers = make_workers or partial(ProcessPool, loop=services.loop, name="move", niceness=NICENESS)
        self._moves: dict[Key, Move] = {}
        self._replaced: list[ReplacedLog] = []
        self._workers: ProcessPool | None = None
        self._closed = False

    def start(self) -> None:
        """Continue interrupted moves, and remove copies that are no longer needed."""
        services = self.services
        for future in services.logs.futures:
            key = future.topic, future.partition
            partition = services.partitions.get(*key)
            if partition is not None and not partition.online:
                continue
            try:
                topic_id = read_topic_id(future.directory.fs, future.path)
            except OSError:  # out of file descriptors: a later start may find the topic
                continue
            is_wanted = (
                partition is not None
                and topic_id in (None, partition.topic_id)
                and partition.log.directory is not future.directory
                and key not in self._moves
            )
            if partition is not None and is_wanted:
                self._begin(partition, future.directory, future.path)
            else:
                self.discard(future.directory, future.path, key)
        services.logs.futures.clear()

    def close(self) -> None:
        """Stop all moves. They continue after the next start."""
        self._closed = True
        for move in list(self._moves.values()):
            move.leave()
        for replaced in self._replaced:
            replaced.leave()
        if self._workers is not None:
            self._workers.close()

    def futures(self) -> Iterator[FutureReplica]:
        """Yield the copies in progress."""
        for (topic, index), move in self._moves.items():
            lag = max(move.source.log_end_offset - move.end_offset, 0)
            yield FutureReplica(topic, index, move.directory, move.size_bytes, lag)

    def alter(self, topic: str, index: int, path: str) -> ErrorCode:
        """Move a partition to the log directory of that path, which must be its full path."""
        logs, key = self.services.logs, (topic, index)
        name = future_name(topic, index, uuid4().hex)
        if name is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = next((each for each in logs.directories if os.path.abspath(each.path) == path), None)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directory.is_cordoned:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not directory.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.services.partitions.get(*key)
        if partition is None:
            if len(logs.preferred) < _MOST_PREFERRED:
                logs.preferred[key] = directory
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.services.partitions.open_now(partition)
        if not partition.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self._moves.get(key)
        if move is not None and not move.is_over():
            if move.directory is directory:
                return ErrorCode.NONE
            move.abandon()
        if directory is partition.log.directory:
            return ErrorCode.NONE
        if not all(each.is_online for each in logs.directories):  # an offline directory may have the copy
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin(partition, directory, f"{directory.path}/{name}")
        return ErrorCode.NONE

    def _begin(self, partition: Partition, directory: LogDirectory, path: str) -> None:
        log.info("%s moves from %s to %s", partition, partition.log.directory.path, directory.path)
        from broker.maintenance.replica_move import Move  # few brokers move a partition

        move = self._moves[partition.topic, partition.index] = Move(self, partition, directory, path)
        move.begin()

    def begin_again(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Move a log soon whose copy was removed, unless it is closed."""
        key = log.topic, log.partition

        def again() -> None:
            partition, name = self.services.partitions.get(*key), future_name(*key, uuid4().hex)
            if self._closed or partition is None or partition.open_log is not log or log.closed or key in self._moves:
                return
            if directory.is_online and log.directory.is_online:
                self._begin(partition, directory, f"{directory.path}/{name}")

        self.services.timers.call_later(_AGAIN_MS, again)

    def discard(self, directory: LogDirectory, path: str, key: Key) -> None:
        """Remove a copy, which may not exist yet."""
        if directory.is_online and directory.fs.exists(path):
            self.services.logs.discard(directory, path, delete_name(*key, uuid4().hex), self.services.clock.now_ms())

    def ended(self, move: Move) -> None:
        """Forget a move."""
        self._moves.pop((move.partition.topic, move.partition.index), None)

    def replaced(self, old: PartitionLog, new: PartitionLog) -> None:
        """Replace a log by its copy. The old log is removed when the copy is on disk."""
        services = self.services
        self._replaced = [each for each in self._replaced if not each.is_over]
        self._replaced.append(
            ReplacedLog(services.logs, services.background, services.timers, services.clock, old, new)
        )
        self._replaced[-1].flush()

    def submit(self, job: CopyJob) -> Deferred[CopyProgress]:
        """Have a worker do a round of copying."""
        from storage.moves.copy import copy_batches

        if self._workers is None:
            threads = self.services.config.get("num.replica.alter.log.dirs.threads")
            size = threads if isinstance(threads, int) and threads > 0 else 1
            self._workers = self._make_workers(size)
        return self._workers.submit(copy_batches, job)

    @property
    def bytes_per_second(self) -> int:
        """The copy rate limit. The key can be set only while the broker runs."""
        image, node_id = self.services.metadata.image, self.services.config.node_id
        for name in (str(node_id), ""):
            text = image.config(ResourceType.BROKER, name).get(RATE_KEY)
            if text is not None:
                return max(int(text), 1)
        return LONG_MAX
