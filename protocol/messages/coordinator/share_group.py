"""Share groups (KIP-932) in `__consumer_offsets`: record types 10 to 15."""

from protocol.primitives import int8, int32, int64, string, uuid
from protocol.schema import Array, Field, Message, StructType

ShareGroupMemberMetadataKey = Message(
    "ShareGroupMemberMetadataKey", Field("group_id", string, "0"), Field("member_id", string, "0"), versions="0", key=10
)


ShareGroupMemberMetadataValue = Message(
    "ShareGroupMemberMetadataValue",
    Field("rack_id", string, nullable="0+"),
    Field("client_id", string),
    Field("client_host", string),
    Field("subscribed_topic_names", Array(string)),
    versions="0",
    flexible="0+",
    key=10,
)


ShareGroupMetadataKey = Message("ShareGroupMetadataKey", Field("group_id", string, "0"), versions="0", key=11)


ShareGroupMetadataValue = Message(
    "ShareGroupMetadataValue", Field("epoch", int32), Field("metadata_hash", int64), versions="0", flexible="0+", key=11
)


ShareGroupTargetAssignmentMetadataKey = Message(
    "ShareGroupTargetAssignmentMetadataKey", Field("group_id", string, "0"), versions="0", key=12
)


ShareGroupTargetAssignmentMetadataValue = Message(
    "ShareGroupTargetAssignmentMetadataValue",
    Field("assignment_epoch", int32),
    Field("assignment_timestamp", int64, tag=0, ignorable=True),
    versions="0",
    flexible="0+",
    key=12,
)


ShareGroupTargetAssignmentMemberKey = Message(
    "ShareGroupTargetAssignmentMemberKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=13,
)


TopicPartition = StructType(
    "TopicPartition",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
)
ShareGroupTargetAssignmentMemberValue = Message(
    "ShareGroupTargetAssignmentMemberValue",
    Field("topic_partitions", Array(TopicPartition)),
    versions="0",
    flexible="0+",
    key=13,
)


ShareGroupCurrentMemberAssignmentKey = Message(
    "ShareGroupCurrentMemberAssignmentKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=14,
)


TopicPartitions = StructType(
    "TopicPartitions",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
)
ShareGroupCurrentMemberAssignmentValue = Message(
    "ShareGroupCurrentMemberAssignmentValue",
    Field("member_epoch", int32),
    Field("previous_member_epoch", int32),
    Field("state", int8),
    Field("assigned_partitions", Array(TopicPartitions)),
    versions="0",
    flexible="0+",
    key=14,
)


ShareGroupStatePartitionMetadataKey = Message(
    "ShareGroupStatePartitionMetadataKey", Field("group_id", string, "0"), versions="0", key=15
)


TopicPartitionsInfo = StructType(
    "TopicPartitionsInfo",
    Field("topic_id", uuid),
    Field("topic_name", string),
    Field("partitions", Array(int32)),
)
TopicInfo = StructType(
    "TopicInfo",
    Field("topic_id", uuid),
    Field("topic_name", string),
)
ShareGroupStatePartitionMetadataValue = Message(
    "ShareGroupStatePartitionMetadataValue",
    Field("initializing_topics", Array(TopicPartitionsInfo)),
    Field("initialized_topics", Array(TopicPartitionsInfo)),
    Field("deleting_topics", Array(TopicInfo)),
    versions="0",
    flexible="0+",
    key=15,
)
