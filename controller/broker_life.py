"""Registrations, heartbeats and sessions of brokers: which are fenced, and what that makes of their partitions.

Kafka's ReplicationControlManager and ClusterControlManager, as far as they deal with brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from controller.broker_sessions import NO_OFFSET, BrokerSessions
from controller.replica_index import ReplicaIndex
from metadata.broker_heartbeat import BrokerState, Heartbeat, Progress, next_state
from metadata.broker_registration import Accepted, Cluster, register_broker
from metadata.bulk_records import Changes
from metadata.decision import Refused
from metadata.features import DIRECTORIES_LEVEL, ELIGIBLE_LEADER_REPLICAS
from metadata.framing import new_record
from metadata.image import MetadataImage
from metadata.leader_moves import LeaderMoves
from metadata.partition_rules import MayBeUnclean
from metadata.registration import FENCE, UNFENCE, cordon_directories, registration_change
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import UnregisterBrokerRecord
from protocol.schema import Struct

log = logging.getLogger(__name__)


class Appends(Protocol):
    """The metadata log, as decisions write it."""

    image: MetadataImage

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    def write(self, changes: Sequence[Changes]) -> None:
        """Append records and replay them."""


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class BrokerLife:
    """The brokers of a cluster.

    Args:
        appends: writes records and replays them into `appends.image`.
        index: the partitions by broker, which follows the image.
        may_be_unclean: whether a topic allows unclean elections.
        clock_ms: a monotonic clock.
        session_ms: how long a broker lives without heartbeats (broker.session.timeout.ms).
    """

    def __init__(
        self,
        appends: Appends,
        index: ReplicaIndex,
        may_be_unclean: MayBeUnclean,
        clock_ms: Callable[[], int],
        session_ms: int,
    ) -> None:
        self._appends = appends
        self._image = appends.image
        self._index = index
        self._may_be_unclean = may_be_unclean
        self._clock_ms = clock_ms
        self._sessions = BrokerSessions(session_ms)
        #: The brokers that were fenced because their session had ended.
        self.ended_sessions = 0
        for broker in self._image.brokers.values():
            # The log does not say at which offset a broker registered: its end is late enough.
            offset = appends.end_offset - 1 if broker.fenced else broker.broker_epoch
            self._sessions.begin(broker.broker_id, offset, is_fenced=broker.fenced)
            if not broker.fenced:
                self._sessions.touch(broker.broker_id, NO_OFFSET, clock_ms(), is_fenced=False)

    # ---- registration

    def check_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Raise Refused STALE_BROKER_EPOCH if this is not the registered process of the broker."""
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.broker_epoch != broker_epoch:
            message = f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}"
            raise Refused(ErrorCode.STALE_BROKER_EPOCH, message)

    def register(self, request: Struct, cluster: Cluster) -> int:
        """Register a broker, fenced, and return its epoch. Raises Refused."""
        broker_id, now_ms = request.broker_id, self._clock_ms()
        has_session = self._sessions.is_valid(broker_id, now_ms)
        accepted = register_broker(self._image, request, cluster, has_session=has_session)
        moves = self._moves_at_start(broker_id, accepted) if accepted.is_new else []
        self._appends.write([*moves, accepted.record])
        offset = self._appends.end_offset - 1
        if accepted.is_new:
            self._sessions.begin(broker_id, offset, is_fenced=True)
        else:
            self._sessions.begin_again(broker_id, offset)
        log.info("Broker %d is registered at epoch %d", broker_id, accepted.broker_epoch)
        return accepted.broker_epoch

    def _moves_at_start(self, broker_id: int, accepted: Accepted) -> list[Changes]:
        """Return the changes of partitions whose replica may have lost records with the former process."""
        in_sync = self._index.in_sync_on(broker_id)
        if accepted.stopped_in_order or not self._image.features.get(ELIGIBLE_LEADER_REPLICAS, 0):
            return LeaderMoves(self._image, self._may_be_unclean, removed=broker_id).changes(in_sync)
        lost = LeaderMoves(self._image, self._may_be_unclean, lost=broker_id)
        return lost.changes(chain(in_sync, self._index.eligible_on(broker_id)))

    def unregister(self, broker_id: int) -> None:
        """Remove the registration of a broker; its replicas stay assigned. Raises Refused."""
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            message = f"Broker ID {broker_id} is not currently registered"
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
        moves = LeaderMoves(self._image, self._may_be_unclean, removed=broker_id)
        changes = moves.changes(chain(self._index.in_sync_on(broker_id), self._index.eligible_on(broker_id)))
        record = new_record(
            self._image.metadata_version,
            UnregisterBrokerRecord,
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
        )
        self._appends.write([*changes, record])
        self._sessions.remove(broker_id)
        log.info("Broker %d is unregistered", broker_id)

    # ---- heartbeats

    def heartbeat(self, request: Struct) -> HeartbeatAnswer:
        """Take a heartbeat, and change the broker's state. Raises Refused: STALE_BROKER_EPOCH."""
        broker_id = request.broker_id
        self.check_epoch(broker_id, request.broker_epoch)
        session = self._sessions.of(broker_id)
        progress = Progress(
            session.registration_offset,
            lambda: self._index.leads(broker_id),
            session.shutdown_offset,
            self._sessions.lowest_active_offset,
        )
        offset = request.current_metadata_offset
        before = session.state
        after = next_state(before, Heartbeat(offset, request.want_fence, request.want_shut_down), progress)
        if after is not before:
            self._appends.write(self._changes(broker_id, after))
            log.info("Broker %d is %s", broker_id, _DESCRIPTIONS[after])
        self._sessions.touch(broker_id, offset, self._clock_ms(), is_fenced=after.is_fenced)
        if after is not before:
            self._sessions.forget_offset(broker_id)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            self._sessions.begin_shutdown(broker_id, self._appends.end_offset - 1)
        if request.offline_log_dirs:
            self._take_offline(broker_id, request.offline_log_dirs)
        if request.cordoned_log_dirs is not None:
            self._cordon(broker_id, request.cordoned_log_dirs)
        is_caught_up = offset >= session.registration_offset
        return HeartbeatAnswer(is_caught_up, after.is_fenced, after is BrokerState.SHUTDOWN_NOW)

    def _changes(self, broker_id: int, after: BrokerState) -> list[Changes]:
        image, unclean = self._image, self._may_be_unclean
        if after is BrokerState.UNFENCED:
            moves = LeaderMoves(image, unclean, added=broker_id).changes(self._index.without_leader())
            return [registration_change(image, broker_id, fenced=UNFENCE), *moves]
        moves = LeaderMoves(image, unclean, removed=broker_id).changes(self._index.in_sync_on(broker_id))
        if after is not BrokerState.CONTROLLED_SHUTDOWN:
            return [*moves, registration_change(image, broker_id, fenced=FENCE)]
        if image.brokers[broker_id].in_controlled_shutdown:
            return moves
        return [registration_change(image, broker_id, in_controlled_shutdown=1), *moves]

    def _take_offline(self, broker_id: int, offline: Sequence[bytes]) -> None:
        """Move leaders away from log directories that went offline (KIP-858)."""
        broker = self._image.brokers[broker_id]
        failed = [each for each in broker.log_directories if each in offline]
        if not failed or self._image.metadata_version < DIRECTORIES_LEVEL:
            return
        online = [each for each in broker.log_directories if each not in offline]
        moves = LeaderMoves(self._image, self._may_be_unclean, removed=broker_id)
        located = chain.from_iterable(self._index.in_directory(broker_id, each) for each in failed)
        self._appends.write([*moves.changes(located), registration_change(self._image, broker_id, log_dirs=online)])
        self._sessions.forget_offset(broker_id)
        log.warning("Broker %d lost %d log directories; %d are left", broker_id, len(failed), len(online))

    def _cordon(self, broker_id: int, cordoned: Sequence[bytes]) -> None:
        """Keep new partitions out of log directories (KIP-1066)."""
        changes = cordon_directories(self._image, broker_id, cordoned)
        if changes:
            self._appends.write(changes)
            self._sessions.forget_offset(broker_id)

    # ---- sessions

    def end_session(self, broker_id: int) -> None:
        """End the session of a broker whose process has ended: its next one may register at once."""
        self._sessions.end(broker_id)

    def end_sessions(self) -> None:
        """Fence the brokers that sent no heartbeat for a session, one after the other.

        As in Apache Kafka, a broker that was fenced before, for example because it has left, is recorded again.
        """
        now_ms = self._clock_ms()
        while (broker_id := self._sessions.take_ended(now_ms)) is not None:
            broker = self._image.brokers.get(broker_id)
            if broker is None:
                continue
            self._appends.write(self._changes(broker_id, BrokerState.FENCED))
            self._sessions.fence(broker_id)
            self.ended_sessions += 1
            if not broker.fenced:
                log.warning("Broker %d is fenced: its session has ended", broker_id)

    def until_next_end_ms(self) -> int:
        """Return after how many milliseconds a session may end, at most one session."""
        end_ms = self._sessions.next_end_ms()
        whole = self._sessions.timeout_ms
        return whole if end_ms is None else min(max(end_ms - self._clock_ms(), 0), whole)


_DESCRIPTIONS = {
    BrokerState.FENCED: "fenced",
    BrokerState.UNFENCED: "unfenced",
    BrokerState.CONTROLLED_SHUTDOWN: "in controlled shutdown: its leaders move to other brokers",
    BrokerState.SHUTDOWN_NOW: "fenced, and may stop",
}
