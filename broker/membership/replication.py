"""The replication of a member: its replicas, what they ask of leaders and of the controller, and their timers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.membership.controllers import ControllerChannel, Leader
from broker.membership.isr_proposals import IsrProposals
from broker.membership.peers import Peers
from broker.network.outbound_connection import SYSTEM_BUFFER
from broker.network.shared_memory import SharedMemory
from broker.process.start_errors import CannotStart
from broker.replication.late_wakes import LateWakes
from broker.replication.leader_fetchers import LeaderFetchers
from broker.replication.replica_reads import (
    LEADER_ONLY,
    RACK_AWARE,
    SELECTOR_KEY,
    LedPartitions,
    ReadablePartitions,
    ReplicaReads,
)
from broker.replication.replicas import Replicas
from broker.replication.throttles import FollowerThrottle, ReplicationThrottles
from config import BrokerConfig
from protocol.error_codes import ErrorCode
from replication.following import FetchLimits

if TYPE_CHECKING:
    import asyncio

    from broker.maintenance.log_scheduler import Background
    from broker.metadata_cache import MetadataCache
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from broker.replication.followed_log import LocalFollowedLog
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from runtime.timers import Timers
    from storage.log_manager import LogManager

log = logging.getLogger(__name__)

_FETCHERS = "num.replica.fetchers"
#: The interval of warnings about logs that cannot be followed without remote storage.
_WARN_OF_REFUSED_MS = 60_000
_RECEIVE_BUFFER = "replica.socket.receive.buffer.bytes"


class ReplicationParts(Protocol):
    """The parts of the process that replication stands on."""

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    purgatory: Purgatory
    logs: LogManager
    partitions: Partitions
    background: Background
    metadata: MetadataCache

    def coordinate(self, partition: Partition) -> None:
        """Let the coordinators load what they keep in a partition, which this broker leads from now on."""


class MemberReplication:
    """Everything that runs because partitions have several replicas.

    Args:
        channel: a channel to the active controller of its own: changes of in-sync replicas wait for nothing else.
        leader: returns the address of the active controller.
        broker_epoch: returns the epoch of this broker's registration.
        on_resigned: called with a partition that this broker no longer leads.
    """

    def __init__(
        self,
        parts: ReplicationParts,
        peers: Peers,
        channel: ControllerChannel,
        leader: Leader,
        broker_epoch: Callable[[], int],
        on_resigned: Callable[[Partition], None],
    ) -> None:
        config = self._config = parts.config
        clock, timers = parts.clock, parts.timers
        self._background, self._logs = parts.background, parts.logs
        self._timers = timers
        self._closed = False
        self.proposals = IsrProposals(
            config.node_id, channel, leader, broker_epoch, timers, lambda answer: self.replicas.take_answer(answer)
        )
        image = parts.metadata.image
        self.throttles = ReplicationThrottles(config, image)
        parts.metadata.on_change(self.throttles.follow)
        timeout_ms = config.get_int("replica.socket.timeout.ms")
        # Otherwise the system sizes the buffer, as it does for clients' connections
        receive_buffer_bytes = config.get_int(_RECEIVE_BUFFER) if config.is_set(_RECEIVE_BUFFER) else SYSTEM_BUFFER
        memory = SharedMemory()
        self.fetchers = LeaderFetchers(
            config.node_id,
            broker_epoch,
            peers.endpoint,
            lambda leader, number: peers.client(
                leader, f"broker-{config.node_id}-fetcher-{number}", timeout_ms, receive_buffer_bytes, memory
            ),
            clock,
            timers,
            _limits(config),
            config.get_int(_FETCHERS),
            FollowerThrottle(self.throttles.follower, image),
        )
        config.subscribe(_FETCHERS, lambda changed: self.fetchers.resize(changed.get_int(_FETCHERS)))
        wake = LateWakes(parts.purgatory, parts.loop.call_soon).wake
        self.replicas = Replicas(
            config.node_id,
            parts.logs,
            parts.partitions,
            self.fetchers,
            peers,
            clock,
            timers,
            wake=wake,
            propose=self.proposals.propose,
            max_lag_ms=config.get_int("replica.lag.time.max.ms"),
            on_led=parts.coordinate,
            on_resigned=on_resigned,
        )
        led = LedPartitions(parts.partitions, self.replicas)
        readable = ReadablePartitions(parts.partitions, self.replicas)
        self.reads = ReplicaReads(
            led, readable, image, clock, peers, self.throttles.leader, wake, _selects_racks(config)
        )

    def start(self) -> None:
        """Start the timers."""
        self._every(self._config.get_int("replica.lag.time.max.ms") // 2, self.replicas.check_lag)
        checkpoint_ms = self._config.get_int("replica.high.watermark.checkpoint.interval.ms")
        self._every(checkpoint_ms, self._checkpoint)
        if not self._config.get_bool("remote.log.storage.system.enable"):  # else the tier joins them
            self._every(_WARN_OF_REFUSED_MS, lambda: warn_of_refused(self.refused_logs()))

    def refused_logs(self) -> list[LocalFollowedLog]:
        """Return the followed logs whose leaders have what they need in remote storage alone."""
        moved = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        states = ((each.followed, self.fetchers.state(key)) for key, each in self.replicas.followed.items())
        return [followed for followed, state in states if state is not None and state[1].last_error == moved]

    def close(self) -> None:
        """Fetch nothing and ask for nothing any more."""
        self._closed = True
        self.fetchers.close()
        self.proposals.close()

    def _checkpoint(self) -> None:
        """Write the high watermarks that have changed."""
        of_directory = self._logs.checkpoints.high_watermark_tasks
        self._background.run(task for each in self._logs.directories for task in of_directory(each))

    def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            if not self._closed:
                self._timers.call_later(max(interval_ms, 1), run)
                work()

        self._timers.call_later(max(interval_ms, 1), run)


def warn_of_refused(refused: Sequence[LocalFollowedLog]) -> None:
    """Log why these logs cannot be followed by a broker without remote storage (KIP-405)."""
    if refused:
        log.warning(
            "%d partitions cannot be followed, %s first: their leaders have the next records in remote storage alone, "
            "and remote.log.storage.system.enable=false here. Set it as in the other brokers, and restart this one.",
            len(refused),
            min(each.log.name for each in refused),
        )


def _selects_racks(config: BrokerConfig) -> bool:
    """Return whether consumers are sent to replicas in their racks. Raises CannotStart for a class of others."""
    selector = config.get(SELECTOR_KEY)
    if selector not in (None, LEADER_ONLY, RACK_AWARE):
        raise CannotStart(f"{SELECTOR_KEY}={selector}: classes are not supported, but for {RACK_AWARE}")
    return selector == RACK_AWARE


def _limits(config: BrokerConfig) -> FetchLimits:
    return FetchLimits(
        max_wait_ms=config.get_int("replica.fetch.wait.max.ms"),
        min_bytes=config.get_int("replica.fetch.min.bytes"),
        max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        partition_max_bytes=config.get_int("replica.fetch.max.bytes"),
        backoff_ms=config.get_int("replica.fetch.backoff.ms"),
    )
