"""Supervise the other workers, in the main process (docs/decisions/more-than-one-core.md).

All of it belongs to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.coordinators.transaction.markers import Marker
from broker.process.placement import worker_of
from broker.process.start_errors import StartInterrupted
from broker.workers.handle import WorkerHandle
from broker.workers.link import LinkEnded
from broker.workers.messages import (
    AppendRecords,
    DirectoryFailed,
    EndOffset,
    ForgetShares,
    KnownEnds,
    LogLevels,
    Records,
    WriteMarker,
)
from metadata.framing import MetadataRecord, encode_record
from metadata.image import TopicImage
from protocol.error_codes import ErrorCode
from runtime import logs
from runtime.deferred import Deferred, settled
from storage.checkpoints import TopicPartition
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.network.listener import Listener
    from broker.workers.backend import WorkerBackend


log = logging.getLogger(__name__)

#: How long to wait for a worker's end offsets.
_SOON_MS = 1_000


class WorkerSupervisor:
    """Workers 1 to num.workers - 1.

    Args:
        listeners: bound for each worker; `close` closes them.
    """

    def __init__(self, listeners: Sequence[Sequence[Listener]]) -> None:
        self._listeners = listeners
        self._interrupted = False
        #: High watermarks of other workers' partitions, as of the last request for them.
        self.known_ends: dict[TopicPartition, int] = {}
        #: By worker: its last answer, or its pending one.
        self._learning: dict[int, Deferred[dict[TopicPartition, int]]] = {}
        self._workers: list[WorkerHandle] = []

    @property
    def serving(self) -> int:
        """The number of workers that accept clients."""
        return sum(each.is_serving for each in self._workers)

    @property
    def restarts(self) -> int:
        """The number of restarts of workers."""
        return sum(each.restarts for each in self._workers)

    @property
    def listeners(self) -> list[Listener]:
        """The listeners of all workers."""
        return [each for listeners in self._listeners for each in listeners]

    def attach(self, backend: WorkerBackend) -> None:
        """Set the main process's services for its workers. Call it once, before `start`."""
        self._backend = backend
        self._workers = [WorkerHandle(backend, number, each) for number, each in enumerate(self._listeners, 1)]

    async def start(self, deleted_topics: set[bytes]) -> None:
        """Have all workers open their logs, without those of deleted topics. Raises CannotStart."""
        if self._interrupted:
            raise StartInterrupted("the start was interrupted before that of the workers")
        controller = self._backend.controller
        for directory in self._backend.logs.directories:
            if directory.is_online:
                directory.share_lock()
        controller.followers = self
        self._backend.metadata.on_topic_deleted(self._on_topic_deleted)
        logs.subscribe(self._send_log_levels)
        await asyncio.gather(*(each.start(deleted_topics) for each in self._workers))

    def interrupt(self) -> None:
        """Make the current start, or a later one, raise StartInterrupted."""
        self._interrupted = True
        for each in self._workers:
            each.interrupt()

    def queue(self, backlog: int) -> None:
        """Listen on the workers' ports: the main process's first answer names them. Raises CannotBind."""
        for listener in self.listeners:
            listener.queue(backlog)

    def open(self) -> None:
        """Have the workers accept clients."""
        for each in self._workers:
            each.open()

    async def stop(self) -> bool:
        """Stop the workers cleanly; return whether all of them did, with their logs on disk."""
        return all(await asyncio.gather(*(each.stop() for each in self._workers)))

    def close(self) -> None:
        """Kill the workers that still run, and close their listeners."""
        logs.unsubscribe(self._send_log_levels)
        for each in self._workers:
            each.kill()
        for listener in self.listeners:
            listener.close()

    # -- metadata ------------------------------------------------------------------------------------------------------

    def follow(self, records: Sequence[MetadataRecord]) -> None:
        """Send workers a batch of the metadata log. Never raises: the batch is committed in any case."""
        try:
            message = Records(self._backend.controller.last_offset, tuple(map(encode_record, records)))
            for each in self._workers:
                each.follow(message)
        except Exception:
            log.exception("Workers cannot get a metadata change: they are restarted with all metadata")
            for each in self._workers:
                each.restart_process()

    def when_caught_up(self) -> Deferred[None]:
        """Resolve once each worker has applied all metadata sent so far, or has ended: a restart sends all of it."""
        return settled([each.when_caught_up() for each in self._workers])

    def _on_topic_deleted(self, topic: TopicImage) -> None:
        for each in self._workers:
            each.note_deleted(topic.topic_id)

    # -- logging -------------------------------------------------------------------------------------------------------

    def _send_log_levels(self) -> None:
        message = LogLevels(logs.own_levels())
        for each in self._workers:
            each.send(message)

    # -- partitions ----------------------------------------------------------------------------------------------------

    def mark(self, marker: Marker, topic: str, partition: int) -> Deferred[ErrorCode]:
        """Write a marker. As `append_marker`; NOT_LEADER_OR_FOLLOWER while the worker is down."""
        worker = worker_of(topic, partition, self._backend.config.num_workers)
        return self._workers[worker - 1].mark(WriteMarker(marker, topic, partition))

    def append_records(self, message: AppendRecords) -> Deferred[ErrorCode]:
        """Append a batch to a worker's partition. Fails with LinkEnded while the worker is down."""
        worker = worker_of(message.topic, message.partition, self._backend.config.num_workers)
        return self._workers[worker - 1].ask(message)

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Return the high watermark of a worker's partition. Fails if the worker is slow, or down."""
        worker = worker_of(topic, partition, self._backend.config.num_workers)
        asked: Deferred[int] = self._workers[worker - 1].ask(EndOffset(topic, partition))
        found: Deferred[int] = Deferred()

        def pass_on(done: Deferred[int]) -> None:
            if not found.done:
                timer.cancel()
                found.settle_as(done)

        def give_up() -> None:
            if not found.done:
                found.fail(LinkEnded())

        timer = self._backend.timers.call_later(_SOON_MS, give_up)
        asked.add_done_callback(pass_on)
        return found

    def learn_ends(self, places: Collection[TopicPartition]) -> Deferred[None]:
        """Update `known_ends` for these partitions, as far as their workers answer in time."""
        by_worker: dict[int, list[TopicPartition]] = {}
        for place in places:
            by_worker.setdefault(worker_of(*place, self._backend.config.num_workers), []).append(place)
        ends: dict[TopicPartition, int] = {}
        learnt: Deferred[None] = Deferred()

        def note(done: Deferred[dict[TopicPartition, int]]) -> None:
            with suppress(Exception):  # the worker is down
                ends.update(done.result())

        def end(_: object = None) -> None:
            if not learnt.done:
                self.known_ends = ends
                learnt.resolve(None)

        for worker, some in by_worker.items():
            # A worker whose last answer is pending is not asked again: requests would pile up.
            if worker and (worker not in self._learning or self._learning[worker].done):
                self._learning[worker] = self._workers[worker - 1].ask(KnownEnds(tuple(some)))
        asked = [self._learning[worker] for worker in by_worker if worker]
        for each in asked:
            each.add_done_callback(note)
        settled(asked).add_done_callback(end)
        if not learnt.done:
            self._backend.timers.call_later(_SOON_MS, end)
        return learnt

    def forget_shares(self, group_id: str, topic_id: bytes, partitions: Collection[int] | None) -> None:
        """Have the workers drop the states of share-partitions, which have changed."""
        message = ForgetShares(group_id, topic_id, None if partitions is None else frozenset(partitions))
        for each in self._workers:
            each.send(message)

    def report_failure(self, directory: LogDirectory) -> None:
        """Report a failed log directory to the workers."""
        message = DirectoryFailed(directory.path, directory.failure or "")
        for each in self._workers:
            each.send(message)
