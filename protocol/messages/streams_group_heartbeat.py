"""StreamsGroupHeartbeat (key 88): join, stay in and leave a streams group (KIP-1071).

Versions: v1 a wider acceptable lag (KAFKA-20744), topology descriptions (KIP-1331).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uint16
from protocol.schema import Api, Array, Field, StructType

KeyValue = StructType(
    "KeyValue",
    Field("key", string),
    Field("value", string),
)
TopicInfo = StructType(
    "TopicInfo",
    Field("name", string),
    Field("partitions", int32),
    Field("replication_factor", int16),
    Field("topic_configs", Array(KeyValue)),
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
Topology = StructType(
    "Topology",
    Field("epoch", int32),
    Field("subtopologies", Array(Subtopology)),
)
TaskIds = StructType(
    "TaskIds",
    Field("subtopology_id", string),
    Field("partitions", Array(int32)),
)
Endpoint = StructType(
    "Endpoint",
    Field("host", string),
    Field("port", uint16),
)
TaskOffset = StructType(
    "TaskOffset",
    Field("subtopology_id", string),
    Field("partition", int32),
    Field("offset", int64),
)
Status = StructType(
    "Status",
    Field("status_code", int8),
    Field("status_detail", string),
)
TopicPartition = StructType(
    "TopicPartition",
    Field("topic", string),
    Field("partitions", Array(int32)),
)
EndpointToPartitions = StructType(
    "EndpointToPartitions",
    Field("user_endpoint", Endpoint),
    Field("active_partitions", Array(TopicPartition)),
    Field("standby_partitions", Array(TopicPartition)),
)

STREAMS_GROUP_HEARTBEAT = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("member_id", string),
        Field("member_epoch", int32),
        Field("endpoint_information_epoch", int32),
        Field("instance_id", string, nullable="0+", default=None),
        Field("rack_id", string, nullable="0+", default=None),
        Field("rebalance_timeout_ms", int32, default=-1),
        Field("topology", Topology, nullable="0+", default=None),
        Field("active_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("standby_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("warmup_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("process_id", string, nullable="0+", default=None),
        Field("user_endpoint", Endpoint, nullable="0+", default=None),
        Field("client_tags", Array(KeyValue), nullable="0+", default=None),
        Field("task_offsets", Array(TaskOffset), nullable="0+", default=None),
        Field("task_end_offsets", Array(TaskOffset), nullable="0+", default=None),
        Field("shutdown_application", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("member_id", string),
        Field("member_epoch", int32),
        Field("heartbeat_interval_ms", int32),
        Field("acceptable_recovery_lag_legacy", int32, "0"),
        Field("task_offset_interval_ms", int32),
        Field("acceptable_recovery_lag", int64, "1+", default=-1, ignorable=True),
        Field("status", Array(Status), nullable="0+"),
        Field("active_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("standby_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("warmup_tasks", Array(TaskIds), nullable="0+", default=None),
        Field("topology_description_required", boolean, "1+"),
        Field("endpoint_information_epoch", int32),
        Field("partitions_by_user_endpoint", Array(EndpointToPartitions), nullable="0+", default=None),
    ],
)
