"""Format records of `__remote_log_metadata` (KIP-405) as Kafka's tool prints them."""

from __future__ import annotations

from collections.abc import Callable

from protocol.error_codes import ProtocolError
from protocol.id_text import id_text
from protocol.messages.data import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from protocol.record_frame import read_frame
from protocol.records.record import Record
from protocol.schema import Message, Struct
from tools.data.decoders import Rendered

_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_decoder(record: Record) -> tuple[Rendered, Rendered]:
    """Decode the value; these records have no key."""
    try:
        return None, _show(record.value or b"")
    except ProtocolError as error:
        return None, f"Error at offset {record.offset}, skipping. {error}"


def _show(data: bytes) -> str:
    kind, version, at = read_frame(data)
    if kind not in _RECORDS:
        raise ProtocolError(f"no record has type {kind}")
    message, show = _RECORDS[kind]
    value, end = message.decode(version, data, at)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes are left after a {message.name}")
    return show(value)


def _partition(entry: Struct) -> str:
    return f"{id_text(entry.id)}:{entry.name}-{entry.partition}"


def _segment_id(entry: Struct) -> str:
    partition = _partition(entry.topic_id_partition)
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={id_text(entry.id)}}}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise ProtocolError(f"no state has the number {number}")
    return names[number]


def _segment(value: Struct) -> str:
    epochs = ", ".join(f"{each.leader_epoch}={each.offset}" for each in value.segment_leader_epochs)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(value.remote_log_segment_id)}"
        f", startOffset={value.start_offset}, endOffset={value.end_offset}, brokerId={value.broker_id}"
        f", maxTimestampMs={value.max_timestamp_ms}, eventTimestampMs={value.event_timestamp_ms}"
        f", segmentLeaderEpochs={{{epochs}}}, segmentSizeInBytes={value.segment_size_in_bytes}"
        f", customMetadata={_custom(value.custom_metadata)}"
        f", state={_state(_SEGMENT_STATES, value.remote_log_segment_state)}"
        f", txnIdxEmpty={'true' if value.txn_index_empty else 'false'}}}"
    )


def _update(value: Struct) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(value.remote_log_segment_id)}"
        f", customMetadata={_custom(value.custom_metadata)}"
        f", state={_state(_SEGMENT_STATES, value.remote_log_segment_state)}"
        f", eventTimestampMs={value.event_timestamp_ms}, brokerId={value.broker_id}}}"
    )


def _deletion(value: Struct) -> str:
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(value.topic_id_partition)}"
        f", state={_state(_PARTITION_STATES, value.remote_partition_delete_state)}"
        f", eventTimestampMs={value.event_timestamp_ms}, brokerId={value.broker_id}}}"
    )


_RECORDS: dict[int, tuple[Message, Callable[[Struct], str]]] = {
    0: (RemoteLogSegmentMetadataRecord, _segment),
    1: (RemoteLogSegmentMetadataUpdateRecord, _update),
    2: (RemotePartitionDeleteMetadataRecord, _deletion),
}
