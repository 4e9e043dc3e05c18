"""The records of `__remote_log_metadata` (KIP-405), and the partition of that topic that has those of a partition."""

from __future__ import annotations

from typing import NamedTuple

from protocol.error_codes import ProtocolError
from protocol.messages.data import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from protocol.messages.data.remote_log import (
    RemoteLogSegmentIdEntry,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from protocol.murmur2 import partition_of
from protocol.record_frame import frame, read_frame
from protocol.schema import Message, Struct
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

#: The only version of each record.
_VERSION = 0
_MASK = 0xFFFFFFFF


class TopicIdPartition(NamedTuple):
    """A partition, named as in the records: an earlier topic of this name had another id."""

    topic_id: bytes
    topic: str
    partition: int


class PartitionDeletion(NamedTuple):
    """The remote segments of a partition are being deleted (RemotePartitionDeleteState); brokers never write it."""

    state: int
    event_timestamp_ms: int
    broker_id: int


Event = RemoteSegment | SegmentUpdate | PartitionDeletion


def encode(partition: TopicIdPartition, event: RemoteSegment | SegmentUpdate) -> bytes:
    """Return the value of a record; its key is null."""
    segment_id = RemoteLogSegmentIdEntry.new(
        topic_id_partition=TopicIdPartitionEntry.new(
            name=partition.topic, id=partition.topic_id, partition=partition.partition
        ),
        id=event.id,
    )
    if isinstance(event, SegmentUpdate):
        return _framed(
            RemoteLogSegmentMetadataUpdateRecord,
            remote_log_segment_id=segment_id,
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            custom_metadata=event.custom,
            remote_log_segment_state=event.state,
        )
    return _framed(
        RemoteLogSegmentMetadataRecord,
        remote_log_segment_id=segment_id,
        start_offset=event.start_offset,
        end_offset=event.end_offset,
        broker_id=event.broker_id,
        max_timestamp_ms=event.max_timestamp_ms,
        event_timestamp_ms=event.event_timestamp_ms,
        segment_leader_epochs=[
            SegmentLeaderEpochEntry.new(leader_epoch=epoch, offset=offset) for epoch, offset in event.epochs
        ],
        segment_size_in_bytes=event.size_bytes,
        custom_metadata=event.custom,
        remote_log_segment_state=event.state,
        txn_index_empty=event.has_no_aborted,
    )


def _framed(message: Message, **fields: object) -> bytes:
    assert message.key is not None
    return frame(message.key, _VERSION) + message.encode(_VERSION, message.new(**fields))


def decode(value: bytes | memoryview) -> tuple[TopicIdPartition, Event]:
    """Return the partition and what happened to it. Raises ProtocolError if the value is no such record."""
    key, version, position = read_frame(value)
    message = _RECORDS.get(key)
    if message is None:
        raise ProtocolError(f"no record of remote log metadata has type {key}")
    record, end = message.decode(version, value, position)
    if end != len(value):
        raise ProtocolError(f"{len(value) - end} bytes are left after a {message.name}")
    if message is RemotePartitionDeleteMetadataRecord:
        deletion = PartitionDeletion(record.remote_partition_delete_state, record.event_timestamp_ms, record.broker_id)
        return _partition(record.topic_id_partition), deletion
    segment_id = record.remote_log_segment_id
    try:
        state = SegmentState(record.remote_log_segment_state)
    except ValueError as error:
        raise ProtocolError(str(error)) from error
    event: Event
    if message is RemoteLogSegmentMetadataUpdateRecord:
        event = SegmentUpdate(bytes(segment_id.id), state, record.event_timestamp_ms, record.broker_id, _custom(record))
    else:
        event = _segment(record, bytes(segment_id.id), state)
    return _partition(segment_id.topic_id_partition), event


def _segment(record: Struct, segment_id: bytes, state: SegmentState) -> RemoteSegment:
    epochs = sorted((each.leader_epoch, each.offset) for each in record.segment_leader_epochs)
    if not epochs or record.end_offset < record.start_offset:
        raise ProtocolError(f"a segment of offsets {record.start_offset} to {record.end_offset}, epochs {epochs}")
    return RemoteSegment(
        id=segment_id,
        start_offset=record.start_offset,
        end_offset=record.end_offset,
        max_timestamp_ms=record.max_timestamp_ms,
        event_timestamp_ms=record.event_timestamp_ms,
        broker_id=record.broker_id,
        size_bytes=record.segment_size_in_bytes,
        epochs=tuple(epochs),
        state=state,
        custom=_custom(record),
        has_no_aborted=record.txn_index_empty,
    )


def _custom(record: Struct) -> bytes | None:
    return None if record.custom_metadata is None else bytes(record.custom_metadata)


def _partition(entry: Struct) -> TopicIdPartition:
    return TopicIdPartition(bytes(entry.id), entry.name, entry.partition)


_RECORDS: dict[int, Message] = {
    message.key: message
    for message in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
    )
    if message.key is not None
}


def metadata_partition(partition: TopicIdPartition, count: int) -> int:
    """Return which of the `count` partitions of `__remote_log_metadata` has the records of `partition`.

    It is the partition of a key: Java's hash of the topic's id and of the index (RemoteLogMetadataTopicPartitioner).
    """
    most, least = (int.from_bytes(half, "big") for half in (partition.topic_id[:8], partition.topic_id[8:]))
    hashed = 1
    for part in (least ^ least >> 32, most ^ most >> 32, partition.partition):
        hashed = 31 * hashed + part & _MASK
    return partition_of(hashed.to_bytes(4, "big"), count)
