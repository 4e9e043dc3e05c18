"""Fetch v4-v18 of a controller: the committed records of the metadata log, for observers (KIP-595).

Versions: v12 diverging epoch; v13 topic ids (KIP-516); v15 replica state (KIP-903); v17 directory id and the leader's
address (KIP-853); v18 the observer's high watermark (KIP-1166). No other topic is served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.metadata_reads import Diverging, Position
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from controller.metadata_log import TOPIC, TOPIC_ID
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import (
    FETCH,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.controlling.metadata_reads import MetadataReads
    from broker.controlling.observers import Observers
    from broker.controlling.raft_leader import RaftLeader

_IDS_FROM, _STATE_FROM, _ENDPOINTS_FROM = 13, 15, 17


def fetch(
    ctx: RequestContext,
    request: Struct,
    *,
    leader: RaftLeader,
    reads: MetadataReads,
    observers: Observers,
    guard: Guard | None,
) -> Reply:
    if guard is not None and not guard.replica_reader(ctx)(TOPIC):
        return FETCH.response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code = leader.cluster_error(request.cluster_id)
    if code is not ErrorCode.NONE:
        return FETCH.response(error_code=code)
    asked = _partition(ctx, request)
    if asked is None:
        return FETCH.response(error_code=ErrorCode.INVALID_REQUEST)
    fetch = _Fetch(ctx, request, asked, leader, reads, observers)
    return fetch.answer()


def _partition(ctx: RequestContext, request: Struct) -> Struct | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    is_metadata = topic.topic_id == TOPIC_ID if ctx.api_version >= _IDS_FROM else topic.topic == TOPIC
    return topic.partitions[0] if is_metadata and topic.partitions[0].partition == 0 else None


class _Fetch:
    """A fetch of an observer."""

    def __init__(
        self,
        ctx: RequestContext,
        request: Struct,
        asked: Struct,
        leader: RaftLeader,
        reads: MetadataReads,
        observers: Observers,
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._asked = asked
        self._leader = leader
        self._reads = reads
        self._observers = observers

    def answer(self) -> Reply:
        asked, reads = self._asked, self._reads
        if self._request.max_wait_ms < 0 or asked.fetch_offset < 0 or asked.last_fetched_epoch < 0:
            return self._response(ErrorCode.INVALID_REQUEST)
        code = self._leader.epoch_error(asked.current_leader_epoch)
        if asked.current_leader_epoch < 0:
            code = ErrorCode.INVALID_REQUEST
        if code is not ErrorCode.NONE:
            return self._response(code)
        found = reads.check(Position(asked.fetch_offset, asked.last_fetched_epoch))
        if isinstance(found, Diverging):
            epoch, end_offset = found.end
            return self._committed(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))
        if found is not None:
            return self._committed(snapshot_id=SnapshotId(end_offset=found.end_offset, epoch=found.epoch))
        node_id = self._request.replica_id
        if self._ctx.api_version >= _STATE_FROM:
            node_id = self._request.replica_state.replica_id
        if node_id >= 0 and node_id != self._leader.node_id:
            self._observers.note_fetch(node_id, asked.replica_directory_id, asked.fetch_offset, reads.high_watermark)
        if asked.fetch_offset < reads.high_watermark or self._knows_less():
            return self._records()
        waited: Deferred[None] = reads.when_beyond(asked.fetch_offset, self._request.max_wait_ms)
        return waited.then(lambda _: self._records())

    def _knows_less(self) -> bool:
        """Return whether an observer that has all records knows a lower high watermark (KIP-1166)."""
        end = min(self._reads.high_watermark, self._asked.fetch_offset)
        return bool(self._asked.high_watermark < end)

    def _records(self) -> Struct:
        most = min(self._asked.partition_max_bytes, self._request.max_bytes)
        return self._committed(records=self._reads.read(self._asked.fetch_offset, most))

    def _committed(self, **fields: object) -> Struct:
        offsets = {
            "high_watermark": self._reads.high_watermark,
            "last_stable_offset": self._reads.high_watermark,
            "log_start_offset": self._reads.start_offset,
        }
        return self._response(ErrorCode.NONE, **offsets, **fields)

    def _response(self, code: ErrorCode, **fields: object) -> Struct:
        ctx, leader = self._ctx, self._leader
        data = {"high_watermark": -1, "log_start_offset": 0, "records": b"", "aborted_transactions": None} | fields
        partition = PartitionData(
            partition_index=0,
            error_code=code,
            current_leader=LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch),
            **data,
        )
        endpoints = []
        if ctx.api_version >= _ENDPOINTS_FROM:
            endpoints = leader.node_endpoints(NodeEndpoint, ctx.connection.listener_name)
        topic = FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        return FETCH.response(responses=[topic], node_endpoints=endpoints)
