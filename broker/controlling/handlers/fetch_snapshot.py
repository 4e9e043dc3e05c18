"""FetchSnapshot v0-v1: a part of a snapshot of the metadata log (KIP-630).

Versions: v1 directory ids, the leader's address (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.raft_leader import RaftLeader, only_partition
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from controller.metadata_log import TOPIC
from controller.metadata_snapshot import SnapshotId
from protocol.error_codes import ErrorCode
from protocol.messages.fetch_snapshot import (
    FETCH_SNAPSHOT,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from protocol.messages.fetch_snapshot import SnapshotId as RequestedSnapshot
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.controlling.metadata_reads import MetadataReads, SnapshotPart
    from runtime.thread_pool import ThreadPool

_ENDPOINTS_FROM = 1
#: Most bytes of one part, whatever the observer asks for.
_MOST_BYTES = 8 << 20


def fetch_snapshot(
    ctx: RequestContext, request: Struct, *, leader: RaftLeader, reads: MetadataReads, offload: ThreadPool
) -> Reply:
    code = leader.cluster_error(request.cluster_id)
    if code is not ErrorCode.NONE:
        return FETCH_SNAPSHOT.response(error_code=code)
    asked = only_partition(request.topics, "name")
    if asked is None:
        return FETCH_SNAPSHOT.response(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    wanted = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)

    def response(code: ErrorCode, part: SnapshotPart | None = None) -> Struct:
        return _response(ctx, leader, wanted, code, asked.position, part)

    code = leader.epoch_error(asked.current_leader_epoch)
    if code is not ErrorCode.NONE:
        return response(code)
    if request.max_bytes < 1:
        return response(ErrorCode.INVALID_REQUEST)
    most = min(request.max_bytes, _MOST_BYTES)

    def read() -> SnapshotPart | None:
        return reads.read_snapshot(wanted, asked.position, most)

    def answer(part: SnapshotPart | None) -> Struct:
        if part is None:
            return response(ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= asked.position < part.size:
            return response(ErrorCode.POSITION_OUT_OF_RANGE)
        return response(ErrorCode.NONE, part)

    return offload(read).then(answer)


def _response(
    ctx: RequestContext,
    leader: RaftLeader,
    wanted: SnapshotId,
    code: ErrorCode,
    position: int,
    part: SnapshotPart | None,
) -> Struct:
    partition = ResponsePartitionSnapshot(
        index=0,
        error_code=code,
        snapshot_id=RequestedSnapshot(end_offset=wanted.end_offset, epoch=wanted.epoch),
        current_leader=LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch),
        size=0 if part is None else part.size,
        position=position if part is not None else 0,
        unaligned_records=b"" if part is None else part.data,
    )
    endpoints = []
    if ctx.api_version >= _ENDPOINTS_FROM:
        endpoints = leader.node_endpoints(NodeEndpoint, ctx.connection.listener_name)
    topic = ResponseTopicSnapshot(name=TOPIC, partitions=[partition])
    return FETCH_SNAPSHOT.response(topics=[topic], node_endpoints=endpoints)
