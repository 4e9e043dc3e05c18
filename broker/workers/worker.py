"""A worker: it serves partitions. The main process makes all decisions about the cluster and coordinates groups."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from broker.automatic_topics import AutomaticTopics
from broker.broker import Broker
from broker.coordinators.transaction.markers import PartitionMarkers
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.network.listener import CannotBind, Listener
from broker.network.settings import configure, inherited_listeners
from broker.replicas.end_offsets import PartitionEndOffsets
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import ServedApi
from broker.services import WorkerServices
from broker.workers.data import WorkerData, open_data
from broker.workers.forwarder import LinkForwarder
from broker.workers.link import Link
from broker.workers.messages import (
    AppendRecords,
    Begin,
    DirectoryFailed,
    EndOffset,
    ForgetShares,
    KnownEnds,
    LogLevels,
    Open,
    Ready,
    Records,
    Stop,
    WriteMarker,
)
from broker.workers.metadata_follower import MetadataFollower, RemoteFeatures
from broker.workers.remote import RemoteController, RemoteVerifier
from broker.workers.remote_shares import RemoteShareStates
from broker.workers.requests import apis_of_a_worker
from config import BrokerConfig
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey
from protocol.error_codes import ErrorCode
from runtime import logs
from runtime.deferred import Deferred
from storage.errors import LogOffline
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.coordinators.share.own_appends import OwnAppends


class Worker(Broker):
    """Worker `begin.number`, in a process of its own. `link` leads to the main process.

    Args:
        sock: the worker's end of the link, on which it received `begin`.
        end: ends the process, with an exit code.
    """

    def __init__(
        self, begin: Begin, sock: socket.socket, loop: asyncio.AbstractEventLoop, end: Callable[[int], None]
    ) -> None:
        given = begin.config
        config = BrokerConfig(given.path, dict(given.settings), given.values, given.listening)
        super().__init__(config, loop)
        self.ports = begin.ports
        self.link = Link(loop, sock, self._serve, lambda: end(1))
        self.number = begin.number
        self._begin = begin
        self._end = end
        self._listeners: list[Listener] = []
        self._is_going_down = False

    # -- start ---------------------------------------------------------------------------------------------------------

    def _served_apis(self) -> Mapping[int, ServedApi]:
        return apis_of_a_worker(super()._served_apis())

    def _bind(self) -> list[Listener]:
        self._listeners = inherited_listeners(self._begin.listeners, self.clock)
        return self._listeners

    def _open_data(self) -> WorkerData:
        self._opened = open_data(
            self.config,
            self._begin,
            self.clock.now_ms(),
            max_open_files=self._descriptors.log_files,
            on_failure=self._directory_failed,
        )
        return self._opened

    def _wire(self) -> None:
        node = self._opened
        number = self._begin.number
        self._wire_data(node, self.config.node_id + number)
        controller = RemoteController(self.config, node.image, self.link)
        self.metadata = MetadataCache(self._begin.cluster_id, node.image)
        self.publisher = MetadataPublisher(
            self.config,
            self.metadata,
            self.partitions,
            controller,
            node.directory_ids,
            self.loop.call_soon,
            number,
        )
        self._wire_moves(controller)
        self._follower = MetadataFollower(node.image, self.publisher, self._begin.last_offset)
        self.topics = AutomaticTopics(self.metadata, self.publisher, controller, self.publisher.when_published)
        self.features = RemoteFeatures(self._follower, self._begin.kraft_version)
        self.end_offsets = PartitionEndOffsets(self.partitions)  # the main process knows those of all workers
        self.verifier = RemoteVerifier(self.link)
        self.markers = PartitionMarkers(
            self.partitions, self.appends, self.durability, self.clock, lambda index: ErrorCode.NOT_COORDINATOR
        )
        self._remote_shares = self.share_states = RemoteShareStates(self.link, self.timers, self._on_share_read)
        self.metadata.on_topic_deleted(lambda topic: self._remote_shares.forget(topic.topic_id))
        self._enforce_quotas()

    def _own_services(self) -> WorkerServices:
        return WorkerServices(forwarder=LinkForwarder(self.link, self.server.held, self.server.queued))

    async def _open(self, listeners: list[Listener]) -> None:
        for directory in self.logs.directories:
            if not directory.is_online:
                self._report_failure(directory)
        self.publisher.host_all()
        self.partitions.log_offline()
        self._start_data()
        configure(self.server, self.config, listeners)
        self.lazy_imports.start()
        self.link.send(Ready())
        self.link.listen()

    @cached_property
    def own_appends(self) -> OwnAppends:
        from broker.workers.own_appends import RemoteAppends

        return RemoteAppends(self.partition_appends, self.partitions, self.link)

    # -- stop ----------------------------------------------------------------------------------------------------------

    def _stop_when_asked(self) -> Deferred[dict[str, str]]:
        stopped: Deferred[dict[str, str]] = Deferred()

        def on_stopped(done: asyncio.Task[None]) -> None:
            error = done.exception()
            if error is None:
                # Include directories that failed while the logs were closed: the main process does not know of them.
                directories = self.logs.directories
                stopped.resolve({each.path: each.failure for each in directories if each.failure is not None})
            else:
                stopped.fail(error)
            self._end(0 if error is None else 1)

        self._is_going_down = True
        stopping = self.loop.create_task(self.stop())
        stopping.add_done_callback(on_stopped)
        return stopped

    # -- failures ------------------------------------------------------------------------------------------------------

    def _go_on_without(self, directory: LogDirectory) -> None:
        self.partitions.take_offline(directory)
        self._report_failure(directory)

    def _report_failure(self, directory: LogDirectory) -> None:
        self.publisher.directory_failed(directory.path)
        self.link.send(DirectoryFailed(directory.path, directory.failure or ""))

    # -- messages of the main process --------------------------------------------------------------------------------

    def _serve(self, message: Any) -> object:
        if isinstance(message, Records):
            return self._follower.follow(message)
        if isinstance(message, WriteMarker):
            return self._mark(message)
        if isinstance(message, AppendRecords):
            return self.partition_appends.append(message.topic, message.partition, message.records)
        if isinstance(message, EndOffset):
            return self._end_offset(message)
        if isinstance(message, KnownEnds):
            opened = self.logs.logs
            found = {place: opened[place] for place in message.places if place in opened}
            return {place: log.high_watermark for place, log in found.items() if log.directory.is_online}
        if isinstance(message, ForgetShares):
            self._remote_shares.forget(message.topic_id, message.group_id)
            self.shares.share_partitions.forget(message.group_id, message.topic_id, message.partitions)
        elif isinstance(message, DirectoryFailed):
            self.fail_directory(message.path, message.reason)
        elif isinstance(message, LogLevels):
            logs.set_levels(message.levels)
        elif isinstance(message, Open):
            # After a restart, earlier Records may still be creating partitions.
            self.publisher.when_published().add_done_callback(lambda _: self._let_in())
        elif isinstance(message, Stop):
            return self._stop_when_asked()
        return None

    def _mark(self, asked: WriteMarker) -> ErrorCode | Deferred[ErrorCode]:
        if self.publisher.is_to_be_hosted(asked.topic, asked.partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # UNKNOWN_TOPIC_OR_PARTITION means nothing to end
        return self.markers.write(asked.marker, asked.topic, asked.partition)

    def _end_offset(self, asked: EndOffset) -> int:
        """Return the high watermark of a partition. Raises Refused."""
        partition = self.partitions.get(asked.topic, asked.partition)
        if partition is None:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            return partition.high_watermark
        except LogOffline as error:
            raise Refused(error_code_of(error)) from error

    def _on_share_read(self, share: ShareKey) -> None:
        """Retry the fetches that wait for the state of a share-partition."""
        partition = self.partitions.get_by_id(share.topic_id, share.partition)
        if partition is not None:
            self.purgatory.check_soon(partition)

    def _let_in(self) -> None:
        if self._is_going_down:
            return
        try:
            self.server.open(self._listeners)
        except CannotBind:
            self._end(1)
        else:
            self.opening.start()
