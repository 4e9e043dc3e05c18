"""The process of a broker that is the controller of its cluster, too (process.roles=broker,controller).

It is a member whose controller is in the same process. The controller listener is open before the broker registers, as
other brokers can do without this one. At a stop the broker leaves first, and the controller ends last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from broker.combined.data import CombinedData
from broker.combined.own_controller import OwnConnection, OwnControllerChannel
from broker.combined.shared_log import SharedLogObserver
from broker.controlling.service import ControllerService
from broker.membership.process import MemberProcess
from broker.network.outbound_security import inter_broker_security
from replication.observing import Endpoint

if TYPE_CHECKING:
    from broker.combined.data import LedMetadata
    from broker.membership.controllers import ControllerChannel
    from broker.membership.data import MemberData
    from broker.network.listener import Listener
    from broker.observability.metrics.observed import MainParts
    from broker.startup.opened_data import OpenedData
    from controller.metadata_retention import MetadataRetention
    from metadata.image import Endpoint as ControllerEndpoint
    from storage.log.directory import LogDirectory


class CombinedProcess(MemberProcess):
    """Broker and controller. It calls `on_fatal(reason)` when it cannot go on as both."""

    _member_data: CombinedData
    _service: ControllerService | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses on which the node listens, for log lines."""
        return super().addresses + (self._service.addresses if self._service is not None else [])

    @property
    def service(self) -> ControllerService:
        """The controller of this node, while it runs."""
        assert self._service is not None
        return self._service

    @property
    def main_parts(self) -> MainParts:
        from broker.controlling.metrics import MeasuredController  # loaded only with metrics

        parts = super().main_parts
        if self._service is None:
            return parts
        return replace(parts, cluster_controller=MeasuredController(self._service, self.clock.now_ms()))

    # -- start ---------------------------------------------------------------------------------------------------------

    def _bind(self) -> list[Listener]:
        listeners = super()._bind()
        service = ControllerService(
            self.config,
            self.loop,
            self.clock,
            self._on_fatal,
            self._lead,
            make_dispatcher=type(self.dispatcher),  # a test injects faults into both
        )
        service.server.limits.max_descriptors = self._descriptors.connections
        self._service = service
        try:
            service.bind()
        except BaseException:
            for listener in listeners:
                listener.close()
            raise
        return listeners

    def _open_data(self) -> CombinedData:
        data = CombinedData(
            self.config, self.clock.now_ms(), self._descriptors.log_files, on_failure=self._directory_failed
        )
        data.lock()
        return data

    def _lead(self, controllers: Sequence[ControllerEndpoint]) -> LedMetadata:
        """Called in a thread, when the addresses of the controller are known."""
        return self._member_data.lead(self.clock.now_ms, controllers)

    async def _join(self, data: MemberData) -> None:
        """Lead the metadata log, register with the own controller, and open the logs."""
        try:
            await self._join_own()
        except BaseException:
            await self._close_service()  # before its log is closed
            raise

    async def _join_own(self) -> None:
        service, data = self._service, self._member_data
        assert service is not None
        self._peer_clients = await self._clients(inter_broker_security)
        await service.start()
        self._cluster_id = service.data.cluster_id
        committed = self._committed = data.committed
        # a snapshot may be written while the broker does not apply records, as when it opens its logs
        service.retention.first_needed = lambda: committed.last_offset + 1
        service.controller.former_process_ended(self.config.node_id)
        own = service.endpoints[0]
        self._observer = SharedLogObserver(
            self.config.node_id,
            Endpoint(own.host, own.port),
            service.data.metadata_log,
            service.reads,
            data.committed,
            self.loop.call_soon,
            self._on_metadata,
            self._on_failure,
        )
        self._observer.start()
        await self._register(data, self._cluster_id)
        self._committed.is_paused = True  # a thread reads the image
        await self.loop.run_in_executor(None, data.load_logs, self._committed.image)

    def _channel(self, client_id: str | None = None, timeout_ms: int | None = None) -> ControllerChannel:
        assert self._service is not None
        own = self.config.controller_listeners[0]
        connection = OwnConnection(own.name, own.security_protocol)
        return OwnControllerChannel(
            self._service.dispatcher, connection, client_id or str(self.config.node_id), self.loop.call_soon
        )

    def _retention(self) -> MetadataRetention:
        """Return what writes the snapshots of the controller: both have one log."""
        assert self._service is not None
        return self._service.retention

    # -- stop ----------------------------------------------------------------------------------------------------------

    def _may_leave(self) -> bool:
        return self._member_data.metadata_directory.is_online

    async def _abandon(self, listeners: list[Listener]) -> None:
        await self._close_service()
        await super()._abandon(listeners)

    async def _close_data(self, data: OpenedData) -> None:
        await self._close_service()
        await super()._close_data(data)

    async def _close_service(self) -> None:
        """End the controller, once. Its log stays open."""
        service, self._service = self._service, None
        if service is not None:
            self._disconnect()
            await service.stop()

    # -- failures ------------------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: LogDirectory) -> None:
        """End the node if the metadata log is in the directory, as Apache Kafka does: it decides nothing without it."""
        super()._directory_failed(directory)
        if directory.path == self.config.metadata_log_dir.rstrip("/") and not self._stopping:
            self.loop.call_soon_threadsafe(self._on_fatal, "the directory of the metadata log is offline")
