"""Consumer groups (KIP-848) in `__consumer_offsets`: record types 3 to 8 and 16."""

from protocol.primitives import bytestring, int8, int32, int64, string, uuid
from protocol.schema import Array, Field, Message, StructType

ConsumerGroupMetadataKey = Message("ConsumerGroupMetadataKey", Field("group_id", string, "0"), versions="0", key=3)


ConsumerGroupMetadataValue = Message(
    "ConsumerGroupMetadataValue",
    Field("epoch", int32),
    Field("metadata_hash", int64, tag=0),
    versions="0",
    flexible="0+",
    key=3,
)


ConsumerGroupPartitionMetadataKey = Message(
    "ConsumerGroupPartitionMetadataKey", Field("group_id", string, "0"), versions="0", key=4
)


PartitionMetadata = StructType(
    "PartitionMetadata",
    Field("partition", int32),
    Field("racks", Array(string)),
)
TopicMetadata = StructType(
    "TopicMetadata",
    Field("topic_id", uuid),
    Field("topic_name", string),
    Field("num_partitions", int32),
    Field("partition_metadata", Array(PartitionMetadata)),
)
ConsumerGroupPartitionMetadataValue = Message(
    "ConsumerGroupPartitionMetadataValue", Field("topics", Array(TopicMetadata)), versions="0", flexible="0+", key=4
)


ConsumerGroupMemberMetadataKey = Message(
    "ConsumerGroupMemberMetadataKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=5,
)


ClassicProtocol = StructType(
    "ClassicProtocol",
    Field("name", string),
    Field("metadata", bytestring),
)
ClassicMemberMetadata = StructType(
    "ClassicMemberMetadata",
    Field("session_timeout_ms", int32),
    Field("supported_protocols", Array(ClassicProtocol)),
)
ConsumerGroupMemberMetadataValue = Message(
    "ConsumerGroupMemberMetadataValue",
    Field("instance_id", string, nullable="0+"),
    Field("rack_id", string, nullable="0+"),
    Field("client_id", string),
    Field("client_host", string),
    Field("subscribed_topic_names", Array(string)),
    Field("subscribed_topic_regex", string, nullable="0+"),
    Field("rebalance_timeout_ms", int32, default=-1),
    Field("server_assignor", string, nullable="0+"),
    Field("classic_member_metadata", ClassicMemberMetadata, nullable="0+", tag=0),
    versions="0",
    flexible="0+",
    key=5,
)


ConsumerGroupTargetAssignmentMetadataKey = Message(
    "ConsumerGroupTargetAssignmentMetadataKey", Field("group_id", string, "0"), versions="0", key=6
)


ConsumerGroupTargetAssignmentMetadataValue = Message(
    "ConsumerGroupTargetAssignmentMetadataValue",
    Field("assignment_epoch", int32),
    Field("assignment_timestamp", int64, tag=0, ignorable=True),
    versions="0",
    flexible="0+",
    key=6,
)


ConsumerGroupTargetAssignmentMemberKey = Message(
    "ConsumerGroupTargetAssignmentMemberKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=7,
)


TopicPartition = StructType(
    "TopicPartition",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
)
ConsumerGroupTargetAssignmentMemberValue = Message(
    "ConsumerGroupTargetAssignmentMemberValue",
    Field("topic_partitions", Array(TopicPartition)),
    versions="0",
    flexible="0+",
    key=7,
)


ConsumerGroupCurrentMemberAssignmentKey = Message(
    "ConsumerGroupCurrentMemberAssignmentKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=8,
)


TopicPartitions = StructType(
    "TopicPartitions",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
    Field("assignment_epochs", Array(int32), nullable="0+", tag=0),
)
ConsumerGroupCurrentMemberAssignmentValue = Message(
    "ConsumerGroupCurrentMemberAssignmentValue",
    Field("member_epoch", int32),
    Field("previous_member_epoch", int32),
    Field("state", int8),
    Field("assigned_partitions", Array(TopicPartitions)),
    Field("partitions_pending_revocation", Array(TopicPartitions)),
    versions="0",
    flexible="0+",
    key=8,
)


ConsumerGroupRegularExpressionKey = Message(
    "ConsumerGroupRegularExpressionKey",
    Field("group_id", string, "0"),
    Field("regular_expression", string, "0"),
    versions="0",
    key=16,
)


ConsumerGroupRegularExpressionValue = Message(
    "ConsumerGroupRegularExpressionValue",
    Field("topics", Array(string)),
    Field("version", int64),
    Field("timestamp", int64),
    versions="0",
    flexible="0+",
    key=16,
)
