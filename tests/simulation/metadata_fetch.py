"""The controller's answers to observers: Fetch and FetchSnapshot of the metadata log."""

from __future__ import annotations

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
from protocol.messages.fetch_snapshot import FETCH_SNAPSHOT, ResponsePartitionSnapshot, ResponseTopicSnapshot
from protocol.messages.fetch_snapshot import LeaderIdAndEpoch as SnapshotLeader
from protocol.messages.fetch_snapshot import SnapshotId as OfSnapshot
from protocol.schema import Struct
from replication.observing import METADATA_TOPIC_ID, Endpoint, Request
from tests.simulation.active import ActiveController
from tests.simulation.metadata import name_snapshot

ENDPOINTS = {100: Endpoint("controller", 100), 101: Endpoint("controller", 101)}
_new_data, _new_topic, _new_response = PartitionData.new, FetchableTopicResponse.new, FETCH.response.new
#: Whole batches, until there are that many.
MOST_RECORDS = 3


def answer(controller: ActiveController, request: Request) -> Struct:
    """Answer an observer's request."""
    asked = request.body.topics[0].partitions[0]
    is_active = request.endpoint == ENDPOINTS[controller.node_id]
    error = ErrorCode.NONE
    if not is_active:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif asked.current_leader_epoch < controller.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif asked.current_leader_epoch > controller.epoch:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    fields: dict[str, object] = {"error_code": int(error)}
    endpoints = []
    if error:
        endpoint = ENDPOINTS[controller.node_id]
        endpoints = [NodeEndpoint.new(node_id=controller.node_id, host=endpoint.host, port=endpoint.port)]
    if request.api is FETCH_SNAPSHOT:
        return _snapshot(controller, asked, error, endpoints)
    fields |= _records(controller, asked) if not error else {"high_watermark": -1}
    if error:
        fields["current_leader"] = LeaderIdAndEpoch.new(leader_id=controller.node_id, leader_epoch=controller.epoch)
    data = _new_data(partition_index=0, aborted_transactions=None, **{"records": None, **fields})
    topic = _new_topic(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return _new_response(responses=[topic], node_endpoints=endpoints)


def _records(controller: ActiveController, asked: Struct) -> dict[str, object]:
    log, offset = controller.log, asked.fetch_offset
    found: dict[str, object] = {"high_watermark": controller.committed, "log_start_offset": log.start}
    epoch = asked.last_fetched_epoch
    if log.start and (
        epoch < log.snapshot_epoch or offset < log.start or (offset == log.start and epoch > log.snapshot_epoch)
    ):
        found["snapshot_id"] = SnapshotId.new(end_offset=log.start, epoch=log.snapshot_epoch)
        return found
    end = log.end_of_epoch(epoch)
    if offset and (end.epoch != epoch or end.end_offset < offset):
        found["diverging_epoch"] = EpochEndOffset.new(epoch=end.epoch, end_offset=end.end_offset)
        return found
    records = []
    for each in log.written[offset - log.start :]:
        records.append(each)
        if each.ends_batch and len(records) >= MOST_RECORDS:
            break
    found["records"] = records
    return found


def _snapshot(controller: ActiveController, asked: Struct, error: int, endpoints: list[Struct]) -> Struct:
    log = controller.log
    wanted = asked.snapshot_id
    if not error and (wanted.end_offset, wanted.epoch) != (log.start, log.snapshot_epoch):
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    content = b"" if error else name_snapshot(log.snapshot, log.snapshot_epoch)
    part = content[asked.position : asked.position + 3]
    data = ResponsePartitionSnapshot(
        index=0,
        error_code=error,
        snapshot_id=OfSnapshot(end_offset=wanted.end_offset, epoch=wanted.epoch),
        current_leader=SnapshotLeader(leader_id=controller.node_id, leader_epoch=controller.epoch)
        if endpoints
        else SnapshotLeader(leader_id=-1, leader_epoch=-1),
        size=len(content),
        position=asked.position,
        unaligned_records=part,
    )
    topic = ResponseTopicSnapshot(name="__cluster_metadata", partitions=[data])
    return FETCH_SNAPSHOT.response(topics=[topic], node_endpoints=endpoints)
