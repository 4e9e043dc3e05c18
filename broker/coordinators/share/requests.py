"""The acknowledgement of records, shared by ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from broker.coordinators.share.acknowledgement import Acknowledged, check_acknowledgements
from broker.coordinators.share.sessions import SessionKey, TopicIdPartition
from coordinator.group.refused import Refused
from coordinator.group.share.checks import LONGEST_MEMBER_ID
from coordinator.share.state import ShareKey
from metadata.features import SHARE_VERSION
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, settled

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.share.partitions import SharePartitions, SharePartitionSettings
    from broker.coordinators.share.states import ShareStates
    from broker.metadata_cache import MetadataCache
    from broker.replicas.current_leaders import CurrentLeaders
    from broker.replicas.partitions import Partitions
    from broker.requests.context import RequestContext
    from broker.requests.served_api import Reply
    from config import BrokerConfig


class Acknowledging(msgspec.Struct):
    """The results of acknowledgements by partition: the error, or None.

    `pending`: writes of another process. `results` may change until they finish.
    """

    results: dict[TopicIdPartition, Refused | None] = field(default_factory=dict)
    pending: list[Deferred[None]] = field(default_factory=list)


def serves_share_groups(metadata: MetadataCache, config: BrokerConfig) -> bool:
    """Return whether the cluster's features, or the broker's configuration, enable share groups."""
    protocols = config.get_list("group.coordinator.rebalance.protocols")
    return metadata.image.features.get(SHARE_VERSION, 0) > 0 or "share" in protocols


def check_caller(request: Struct) -> None:
    """Check the ids of group and member. Raises Refused: INVALID_REQUEST."""
    if request.group_id is None or not request.member_id or len(request.member_id) > LONGEST_MEMBER_ID:
        raise Refused(ErrorCode.INVALID_REQUEST)


class ShareRequests:
    """Checks requests of share group members, and acknowledges records in the partitions of this process."""

    def __init__(
        self,
        guard: Guard | None,
        partitions: Partitions,
        share_partitions: SharePartitions,
        share_states: ShareStates,
        current_leaders: CurrentLeaders,
    ) -> None:
        self._guard = guard
        self._partitions = partitions
        self._share_partitions = share_partitions
        self._share_states = share_states
        self._current_leaders = current_leaders

    def reader(self, ctx: RequestContext) -> Callable[[str], bool] | None:
        """Return a function that says whether the client may read a topic; None without an authorizer."""
        return None if self._guard is None else self._guard.reader(ctx)

    def acknowledge(
        self,
        ctx: RequestContext,
        key: SessionKey,
        batches: Mapping[TopicIdPartition, Sequence[Acknowledged]],
        *,
        may_renew: bool,
    ) -> Acknowledging:
        """Acknowledge records, and return the results.

        A partition without acknowledgements is in the results only if it has an error, or if others have some.
        """
        settings = self._share_partitions.settings(key.group_id)
        may_read = self.reader(ctx)
        found = Acknowledging()
        sound: dict[TopicIdPartition, Sequence[Acknowledged]] = {}
        for place, acknowledged in batches.items():
            try:
                self._check(place, acknowledged, may_renew=may_renew, may_read=may_read)
                sound[place] = acknowledged
            except Refused as refusal:
                found.results[place] = refusal
        if not any(sound.values()):
            return found
        for place, acknowledged in sound.items():
            found.results[place] = None
            if not acknowledged:
                continue
            try:
                written = self._acknowledge_one(key, place, acknowledged, settings)
            except Refused as refusal:
                found.results[place] = refusal
                continue
            if written is not None:
                found.pending.append(written)
                written.add_done_callback(partial(_note, found.results, place))
        return found

    def when_written(
        self,
        group_id: str,
        found: Acknowledging,
        respond: Callable[[], Struct],
        failed: Callable[[ErrorCode], Struct],
    ) -> Reply:
        """Answer once the acknowledgements are in the share coordinator's log, and flushed as flush.messages says."""
        if found.pending:
            return settled(found.pending).then(lambda _: respond())
        keys = (ShareKey(group_id, *place).coordinator_key for place in found.results)
        return self._share_states.after_commit(keys, respond(), failed)

    def set_leader(self, place: TopicIdPartition, data: Struct, leaders: set[int]) -> None:
        """Set `current_leader` in an answer if another broker leads the partition; add its id to `leaders`."""
        leader = self._current_leaders.other_leader(self._partitions.topic_name(place.topic_id), place.partition)
        if leader is not None:
            data.current_leader = data.current_leader.struct_type(leader_id=leader[0], leader_epoch=leader[1])
            leaders.add(leader[0])

    def _check(
        self,
        place: TopicIdPartition,
        acknowledged: Sequence[Acknowledged],
        *,
        may_renew: bool,
        may_read: Callable[[str], bool] | None,
    ) -> None:
        """Check a partition.

        Raises Refused: UNKNOWN_TOPIC_ID, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
        """
        partitions = self._partitions
        name = partitions.topic_name(place.topic_id)
        if name is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        check_acknowledgements(acknowledged, may_renew=may_renew)
        if may_read is not None and not may_read(name):
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if partitions.get(name, place.partition) is None:
            raise Refused(partitions.absence(name, place.partition))

    def _acknowledge_one(
        self,
        key: SessionKey,
        place: TopicIdPartition,
        acknowledged: Sequence[Acknowledged],
        settings: SharePartitionSettings,
    ) -> Deferred[None] | None:
        """Acknowledge records of one partition.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, and what `SharePartitions.acknowledge` raises.
        """
        share = self._share_partitions.known(key.group_id, place)
        if share is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise Refused(code, code.text)
        return self._share_partitions.acknowledge(share, key.member_id, acknowledged, settings)


def _note(results: dict[TopicIdPartition, Refused | None], place: TopicIdPartition, written: Deferred[None]) -> None:
    try:
        written.result()
    except Refused as refusal:
        results[place] = refusal
    except Exception:  # the main process, or the link to it, has ended
        results[place] = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.text)
