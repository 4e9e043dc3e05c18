"""A member's way into its cluster: find the controllers, follow the metadata log, and register."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from broker.console.hosted import bind_console
from broker.membership.cluster_id import find_cluster_id
from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.controllers import ControllerChannel, NetworkChannel
from broker.membership.coordination.coordinating import CoordinatingMember
from broker.membership.data import MemberData
from broker.membership.discovery import bootstrap_endpoints
from broker.membership.lifecycle import MemberLifecycle
from broker.membership.metadata_observer import FollowedMetadata, MetadataObserver
from broker.membership.progress import Progress
from broker.membership.registration import identity, observer_limits, times
from broker.membership.start_limits import bound_start, in_time
from broker.membership.voters import check_no_voter
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_security import controller_security, inter_broker_security
from broker.network.settings import bind_listeners
from broker.process.start_errors import CannotStart, StartInterrupted
from broker.process.state import BrokerState
from config import ConfigError
from replication.lifecycle import BrokerLifecycle, LifecycleState
from replication.observing import Endpoint, Observer
from runtime.outage_log import OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.listener import Listener
    from broker.network.outbound_client import OpenConnection
    from broker.network.outbound_security import OutboundSecurity
    from broker.startup.opened_data import OpenedData
    from config import BrokerConfig

log = logging.getLogger(__name__)


class JoiningMember(CoordinatingMember):
    """A process that follows controllers and is registered with them, from its start to its stop."""

    #: Opens connections to other nodes, in place of the loop's own function. A test may set it before the start.
    open_connection: OpenConnection | None = None
    _member_data: MemberData
    _controller_clients: OutboundClients
    _peer_clients: OutboundClients
    _observer: FollowedMetadata | None = None
    _lifecycle: MemberLifecycle | None = None

    def interrupt(self) -> None:
        self._progress.fail(StartInterrupted())

    def _bind(self) -> list[Listener]:
        self._progress = Progress(self.loop)
        self._outage = OutageLog(log, "Requests to the controllers", self.clock.monotonic_ms)
        self._lift_bound = bound_start(self.config, self.timers, self._progress)
        self.console = bind_console(self.config)
        self._bound = bind_listeners(self.config, self.clock)
        return self._bound

    def _open_data(self) -> MemberData:
        data = MemberData(
            self.config, self.clock.now_ms(), self._descriptors.log_files, on_failure=self._directory_failed
        )
        data.lock()
        return data

    async def _load_data(self) -> OpenedData:
        """Find the controllers, follow the metadata up to its end, register, and open the logs."""
        data = self._member_data = await self.loop.run_in_executor(None, self._open_data)
        try:
            await self._join(data)
        except BaseException:
            self._disconnect()
            data.abandon()
            raise
        return data

    async def _join(self, data: MemberData) -> None:
        in_thread = functools.partial(self.loop.run_in_executor, None)
        most_ms = self.config.get_int("controller.socket.timeout.ms")
        self._controller_clients = await self._clients(controller_security, most_ms)
        self._peer_clients = await self._clients(inter_broker_security)
        cluster_id = self._cluster_id = await find_cluster_id(
            self.config, data.cluster_id, self._channel(), self.timers, self._progress
        )
        await in_thread(functools.partial(data.format, cluster_id, unformatted=False))
        metadata_log = await in_thread(data.open_metadata, self.clock.now_ms)
        self._committed = await in_thread(CommittedMetadata, metadata_log)
        await self._observe(data, cluster_id)
        quorum = self._committed.log.quorum
        await check_no_voter(self.config.node_id, quorum, self._leader(), self._channel(), self._progress)
        self._committed.is_paused = True  # threads read the image
        await in_thread(data.check_missing, self._committed.image)
        await in_thread(data.format, cluster_id)
        self._committed.is_paused = False
        await self._register(data, cluster_id)
        self._committed.is_paused = True
        await in_thread(data.load_logs, self._committed.image)

    async def _clients(
        self, load: Callable[[BrokerConfig], OutboundSecurity], most_timeout_ms: int | None = None
    ) -> OutboundClients:
        """Return what creates clients with the security that `load` reads. Raises CannotStart."""
        try:
            security = await self.loop.run_in_executor(None, load, self.config)
        except ConfigError as error:
            raise CannotStart(str(error.problems[0])) from None
        return OutboundClients(self.config, self.loop, self.timers, security, self.open_connection, most_timeout_ms)

    async def _observe(self, data: MemberData, cluster_id: str) -> None:
        """Follow the metadata log up to its committed end."""
        epoch = await self.loop.run_in_executor(None, data.metadata_log.last_leader_epoch)
        core = Observer(
            self.config.node_id,
            cluster_id,
            data.metadata_directory_id,
            bootstrap_endpoints(self.config),
            data.metadata_log,
            observer_limits(self.config),
            epoch,
        )
        timeout_ms = self.config.get_int("controller.quorum.request.timeout.ms")
        observer = self._observer = MetadataObserver(
            core,
            self._committed,
            self._channel(f"raft-client-{self.config.node_id}", timeout_ms),
            self.clock,
            self.timers,
            self._on_metadata,
            self._on_failure,
            self._outage,
        )
        observer.start()
        await self._in_time(lambda: self._committed.is_current, lambda: observer.last_error)

    async def _register(self, data: MemberData, cluster_id: str) -> None:
        """Register, and wait until the own registration is applied."""
        epoch = data.previous_epoch
        in_thread = functools.partial(self.loop.run_in_executor, None)
        registered = await in_thread(identity, self.config, cluster_id, self._bound, data.log_directory_ids, epoch)
        timeout_ms = self.config.get_int("broker.session.timeout.ms") // 2
        self._lifecycle = MemberLifecycle(
            BrokerLifecycle(registered, times(self.config), self.clock.monotonic_ms()),
            self._channel(timeout_ms=timeout_ms),
            self._leader,
            self.clock,
            self.timers,
            self._progress.changed,
            self._on_failure,
            self._outage,
        )
        self._lifecycle.note_applied(self._committed)
        self._lifecycle.start()
        await self._progress.until(lambda: self._state >= LifecycleState.RECOVERING)
        data.broker_epoch = self._lifecycle.broker_epoch

    async def _in_time(self, is_reached: Callable[[], bool], reason: Callable[[], str | None]) -> None:
        await in_time(self.config, self.timers, self._progress, is_reached, reason)

    def _channel(self, client_id: str | None = None, timeout_ms: int | None = None) -> ControllerChannel:
        return NetworkChannel(self._controller_clients, client_id or str(self.config.node_id), timeout_ms)

    @property
    def _state(self) -> LifecycleState:
        return LifecycleState.REGISTERING if self._lifecycle is None else self._lifecycle.state

    def _leader(self) -> Endpoint | None:
        return self._observer.leader if self._observer is not None else None

    def _on_metadata(self) -> None:
        """More of the metadata is applied, or another controller leads."""
        if self._lifecycle is not None:
            self._lifecycle.note_applied(self._committed)
        self._progress.changed()

    def _on_failure(self, reason: str) -> None:
        """End the start, or the broker."""
        if self.state is BrokerState.STARTING:
            self._progress.fail(CannotStart(reason))
        else:
            self._on_fatal(reason)

    def _epoch(self) -> int:
        return self._member_data.broker_epoch

    def _disconnect(self) -> None:
        """Close the connections to controllers."""
        for part in (self._lifecycle, self._observer):
            if part is not None:
                part.close()
