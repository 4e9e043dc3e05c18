"""Records of `__remote_log_metadata` (KIP-405)."""

from protocol.primitives import boolean, bytestring, int8, int32, int64, string, uuid
from protocol.schema import Array, Field, Message, StructType

TopicIdPartitionEntry = StructType(
    "TopicIdPartitionEntry",
    Field("name", string),
    Field("id", uuid),
    Field("partition", int32),
)
RemoteLogSegmentIdEntry = StructType(
    "RemoteLogSegmentIdEntry",
    Field("topic_id_partition", TopicIdPartitionEntry),
    Field("id", uuid),
)
SegmentLeaderEpochEntry = StructType(
    "SegmentLeaderEpochEntry",
    Field("leader_epoch", int32),
    Field("offset", int64),
)
RemoteLogSegmentMetadataRecord = Message(
    "RemoteLogSegmentMetadataRecord",
    Field("remote_log_segment_id", RemoteLogSegmentIdEntry),
    Field("start_offset", int64),
    Field("end_offset", int64),
    Field("broker_id", int32),
    Field("max_timestamp_ms", int64),
    Field("event_timestamp_ms", int64),
    Field("segment_leader_epochs", Array(SegmentLeaderEpochEntry)),
    Field("segment_size_in_bytes", int32),
    Field("custom_metadata", bytestring, nullable="0+", default=None),
    Field("remote_log_segment_state", int8),
    Field("txn_index_empty", boolean, tag=0),
    versions="0",
    flexible="0+",
    key=0,
)


RemoteLogSegmentMetadataUpdateRecord = Message(
    "RemoteLogSegmentMetadataUpdateRecord",
    Field("remote_log_segment_id", RemoteLogSegmentIdEntry),
    Field("broker_id", int32),
    Field("event_timestamp_ms", int64),
    Field("custom_metadata", bytestring, nullable="0+", default=None),
    Field("remote_log_segment_state", int8),
    versions="0",
    flexible="0+",
    key=1,
)


RemotePartitionDeleteMetadataRecord = Message(
    "RemotePartitionDeleteMetadataRecord",
    Field("topic_id_partition", TopicIdPartitionEntry),
    Field("broker_id", int32),
    Field("event_timestamp_ms", int64),
    Field("remote_partition_delete_state", int8),
    versions="0",
    flexible="0+",
    key=2,
)


RemoteLogSegmentMetadataSnapshotRecord = Message(
    "RemoteLogSegmentMetadataSnapshotRecord",
    Field("segment_id", uuid),
    Field("start_offset", int64),
    Field("end_offset", int64),
    Field("broker_id", int32),
    Field("max_timestamp_ms", int64),
    Field("event_timestamp_ms", int64),
    Field("segment_leader_epochs", Array(SegmentLeaderEpochEntry)),
    Field("segment_size_in_bytes", int32),
    Field("custom_metadata", bytestring, nullable="0+", default=None),
    Field("remote_log_segment_state", int8),
    Field("txn_index_empty", boolean, tag=0),
    versions="0",
    flexible="0+",
    key=3,
)
