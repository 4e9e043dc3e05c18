"""Streams groups (KIP-1071) in `__consumer_offsets`: record types 17 to 23."""

from protocol.primitives import int8, int16, int32, int64, string, uint16
from protocol.schema import Array, Field, Message, StructType

StreamsGroupMetadataKey = Message("StreamsGroupMetadataKey", Field("group_id", string, "0"), versions="0", key=17)


LastAssignmentConfig = StructType(
    "LastAssignmentConfig",
    Field("key", string),
    Field("value", string),
)
StreamsGroupMetadataValue = Message(
    "StreamsGroupMetadataValue",
    Field("epoch", int32),
    Field("metadata_hash", int64),
    Field("validated_topology_epoch", int32, tag=0, default=-1),
    Field("last_assignment_configs", Array(LastAssignmentConfig), nullable="0+", tag=1),
    Field("stored_description_topology_epoch", int32, tag=2, default=-1),
    Field("failed_description_topology_epoch", int32, tag=3, default=-1),
    versions="0",
    flexible="0+",
    key=17,
)


StreamsGroupMemberMetadataKey = Message(
    "StreamsGroupMemberMetadataKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=19,
)


Endpoint = StructType(
    "Endpoint",
    Field("host", string),
    Field("port", uint16),
)
KeyValue = StructType(
    "KeyValue",
    Field("key", string),
    Field("value", string),
)
StreamsGroupMemberMetadataValue = Message(
    "StreamsGroupMemberMetadataValue",
    Field("instance_id", string, nullable="0+"),
    Field("rack_id", string, nullable="0+"),
    Field("client_id", string),
    Field("client_host", string),
    Field("rebalance_timeout_ms", int32, default=-1),
    Field("topology_epoch", int32),
    Field("process_id", string),
    Field("user_endpoint", Endpoint, nullable="0+", default=None),
    Field("client_tags", Array(KeyValue)),
    versions="0",
    flexible="0+",
    key=19,
)


StreamsGroupTargetAssignmentMetadataKey = Message(
    "StreamsGroupTargetAssignmentMetadataKey", Field("group_id", string, "0"), versions="0", key=20
)


StreamsGroupTargetAssignmentMetadataValue = Message(
    "StreamsGroupTargetAssignmentMetadataValue",
    Field("assignment_epoch", int32),
    Field("assignment_timestamp", int64, tag=0, ignorable=True),
    versions="0",
    flexible="0+",
    key=20,
)


StreamsGroupTargetAssignmentMemberKey = Message(
    "StreamsGroupTargetAssignmentMemberKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=21,
)


StreamsGroupTargetAssignmentMemberTaskIds = StructType(
    "StreamsGroupTargetAssignmentMemberTaskIds",
    Field("subtopology_id", string),
    Field("partitions", Array(int32)),
)
StreamsGroupTargetAssignmentMemberValue = Message(
    "StreamsGroupTargetAssignmentMemberValue",
    Field("active_tasks", Array(StreamsGroupTargetAssignmentMemberTaskIds)),
    Field("standby_tasks", Array(StreamsGroupTargetAssignmentMemberTaskIds)),
    Field("warmup_tasks", Array(StreamsGroupTargetAssignmentMemberTaskIds)),
    versions="0",
    flexible="0+",
    key=21,
)


StreamsGroupCurrentMemberAssignmentKey = Message(
    "StreamsGroupCurrentMemberAssignmentKey",
    Field("group_id", string, "0"),
    Field("member_id", string, "0"),
    versions="0",
    key=22,
)


StreamsGroupCurrentMemberAssignmentTaskIds = StructType(
    "StreamsGroupCurrentMemberAssignmentTaskIds",
    Field("subtopology_id", string),
    Field("partitions", Array(int32)),
    Field("assignment_epochs", Array(int32), nullable="0+", tag=0),
)
StreamsGroupCurrentMemberAssignmentValue = Message(
    "StreamsGroupCurrentMemberAssignmentValue",
    Field("member_epoch", int32),
    Field("previous_member_epoch", int32),
    Field("state", int8),
    Field("active_tasks", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    Field("standby_tasks", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    Field("warmup_tasks", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    Field("active_tasks_pending_revocation", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    Field("standby_tasks_pending_revocation", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    Field("warmup_tasks_pending_revocation", Array(StreamsGroupCurrentMemberAssignmentTaskIds)),
    versions="0",
    flexible="0+",
    key=22,
)


StreamsGroupTopologyKey = Message("StreamsGroupTopologyKey", Field("group_id", string, "0"), versions="0", key=23)


TopicConfig = StructType(
    "TopicConfig",
    Field("key", string),
    Field("value", string),
)
TopicInfo = StructType(
    "TopicInfo",
    Field("name", string),
    Field("partitions", int32),
    Field("replication_factor", int16),
    Field("topic_configs", Array(TopicConfig)),
)
CopartitionGroup = StructType(
    "CopartitionGroup",
    Field("source_topics", Array(int16)),
    Field("source_topic_regex", Array(int16)),
    Field("repartition_source_topics", Array(int16)),
)
Subtopology = StructType(
    "Subtopology",
    Field("subtopology_id", string),
    Field("source_topics", Array(string)),
    Field("source_topic_regex", Array(string)),
    Field("state_changelog_topics", Array(TopicInfo)),
    Field("repartition_sink_topics", Array(string)),
    Field("repartition_source_topics", Array(TopicInfo)),
    Field("copartition_groups", Array(CopartitionGroup)),
)
StreamsGroupTopologyValue = Message(
    "StreamsGroupTopologyValue",
    Field("epoch", int32),
    Field("subtopologies", Array(Subtopology)),
    versions="0",
    flexible="0+",
    key=23,
)
