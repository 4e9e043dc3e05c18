"""Supervises the other workers, in the main process (docs/decisions/more-than-one-core.md).

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
    DirectoryFailed,
    EndOffset,
    ForgetShares,
    KnownEnds,
    LogLevels,
    Mark,
    Records,
)
from metadata.framing import MetadataRecord, encode_record
from metadata.image import TopicImage
from protocol.errors import ErrorCode
from runtime import logs
from runtime.deferred import Deferred, settled
from storage.checkpoints import TopicPartition
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.network.listener import Listener
    from broker.workers.backend import WorkerBackend


log = logging.getLogger(__name__)

#: One that takes longer to say where its partitions end is not waited for.
_SOON_MS = 1_000


class WorkerSupervisor:
    """Workers 1 to num.workers - 1.

    Args:
        listeners: bound for each of them; `close` closes them.
    """

    def __init__(self, listeners: Sequence[Sequence[Listener]]) -> None:
        self._listeners = listeners
        self._interrupted = False
        #: High watermarks of other workers' partitions, as of when they were asked for last.
        self.known_ends: dict[TopicPartition, int] = {}
        #: By worker: the last of its answers, or the one that is still to come.
        self._learning: dict[int, Deferred[dict[TopicPartition, int]]] = {}
        self._workers: list[WorkerHandle] = []

    @property
    def serving(self) -> int:
        """How many of them let clients in."""
        return sum(each.is_serving for each in self._workers)

    @property
    def restarts(self) -> int:
        """How often one of them has died and was started again."""
        return sum(each.restarts for each in self._workers)

    @property
    def listeners(self) -> list[Listener]:
        """Those of all of them."""
        return [each for listeners in self._listeners for each in listeners]

    def attach(self, backend: WorkerBackend) -> None:
        """Take what the main process does for its workers. To be called once, before `start`."""
        self._backend = backend
        self._workers = [WorkerHandle(backend, number, each) for number, each in enumerate(self._listeners, 1)]

    async def start(self, deleted_topics: set[bytes]) -> None:
        """Have all of them open their logs, but for those of topics of these ids. Raises CannotStart."""
        if self._interrupted:
            raise StartInterrupted("the start was interrupted before that of the workers")
        controller = self._backend.controller
        for directory in self._backend.logs.directories:
            if directory.is_online:
                directory.share_lock()
        controller.followers = self
        self._backend.metadata.on_topic_deleted(self._on_topic_deleted)
        logs.subscribe(self._tell_log_levels)
        await asyncio.gather(*(each.start(deleted_topics) for each in self._workers))

    def interrupt(self) -> None:
        """Have a start, under way or to come, raise StartInterrupted."""
        self._interrupted = True
        for each in self._workers:
            each.interrupt()

    def queue(self, backlog: int) -> None:
        """Let clients queue at their ports: the first answer of the main process names them. Raises CannotBind."""
        for listener in self.listeners:
            listener.queue(backlog)

    def open(self) -> None:
        """Have them let clients in."""
        for each in self._workers:
            each.open()

    async def stop(self) -> bool:
        """Have them go down in good order; whether all did, with all of their logs on the disk."""
        return all(await asyncio.gather(*(each.stop() for each in self._workers)))

    def close(self) -> None:
        """End those that are still there, at once, and close their listeners."""
        logs.unsubscribe(self._tell_log_levels)
        for each in self._workers:
            each.kill()
        for listener in self.listeners:
            listener.close()

    # -- metadata ------------------------------------------------------------------------------------------------------

    def follow(self, records: Sequence[MetadataRecord]) -> None:
        """Tell them of a batch of the metadata log. Never raises: what is in the log goes on, with or without them."""
        try:
            message = Records(self._backend.controller.last_offset, tuple(map(encode_record, records)))
            for each in self._workers:
                each.follow(message)
        except Exception:
            log.exception("Workers cannot be told what has changed: they are ended, and begin anew with all of it")
            for each in self._workers:
                each.begin_anew()

    def when_caught_up(self) -> Deferred[None]:
        """Resolves once all have carried out what they were told, or have ended: then they begin with all of it."""
        return settled([each.when_caught_up() for each in self._workers])

    def _on_topic_deleted(self, topic: TopicImage) -> None:
        for each in self._workers:
            each.note_deleted(topic.topic_id)

    # -- logging -------------------------------------------------------------------------------------------------------

    def _tell_log_levels(self) -> None:
        message = LogLevels(logs.own_levels())
        for each in self._workers:
            each.tell(message)

    # -- partitions ----------------------------------------------------------------------------------------------------

    def mark(self, marker: Marker, topic: str, partition: int) -> Deferred[ErrorCode]:
        """Have a marker written. As `append_marker`; NOT_LEADER_OR_FOLLOWER where the worker is away."""
        worker = worker_of(topic, partition, self._backend.config.num_workers)
        return self._workers[worker - 1].mark(Mark(marker, topic, partition))

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """The high watermark of a partition that one of them has. Fails where it does not answer soon, or is away."""
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
        """Have `known_ends` tell of these partitions, as far as their workers answer soon."""
        by_worker: dict[int, list[TopicPartition]] = {}
        for place in places:
            by_worker.setdefault(worker_of(*place, self._backend.config.num_workers), []).append(place)
        ends: dict[TopicPartition, int] = {}
        learnt: Deferred[None] = Deferred()

        def note(done: Deferred[dict[TopicPartition, int]]) -> None:
            with suppress(Exception):  # it is away: it tells nothing
                ends.update(done.result())

        def end(_: object = None) -> None:
            if not learnt.done:
                self.known_ends = ends
                learnt.resolve(None)

        for worker, some in by_worker.items():
            # One that has not answered the last time is not asked again: what is not heard would pile up.
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
        """The states of share-partitions are not what they were."""
        message = ForgetShares(group_id, topic_id, None if partitions is None else frozenset(partitions))
        for each in self._workers:
            each.tell(message)

    def tell_failure(self, directory: LogDirectory) -> None:
        """A log directory does not work."""
        message = DirectoryFailed(directory.path, directory.failure or "")
        for each in self._workers:
            each.tell(message)
