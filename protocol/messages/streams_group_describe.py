"""StreamsGroupDescribe (key 89): state, topology and members of streams groups (KIP-1071)."""

from protocol.primitives import boolean, int16, int32, int64, string, uint16
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
Subtopology = StructType(
    "Subtopology",
    Field("subtopology_id", string),
    Field("source_topics", Array(string)),
    Field("repartition_sink_topics", Array(string)),
    Field("state_changelog_topics", Array(TopicInfo)),
    Field("repartition_source_topics", Array(TopicInfo)),
)
Topology = StructType(
    "Topology",
    Field("epoch", int32),
    Field("subtopologies", Array(Subtopology), nullable="0+", default=None),
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
TaskIds = StructType(
    "TaskIds",
    Field("subtopology_id", string),
    Field("partitions", Array(int32)),
)
Assignment = StructType(
    "Assignment",
    Field("active_tasks", Array(TaskIds)),
    Field("standby_tasks", Array(TaskIds)),
    Field("warmup_tasks", Array(TaskIds)),
)
Member = StructType(
    "Member",
    Field("member_id", string),
    Field("member_epoch", int32),
    Field("instance_id", string, nullable="0+", default=None),
    Field("rack_id", string, nullable="0+", default=None),
    Field("client_id", string),
    Field("client_host", string),
    Field("topology_epoch", int32),
    Field("process_id", string),
    Field("user_endpoint", Endpoint, nullable="0+", default=None),
    Field("client_tags", Array(KeyValue)),
    Field("task_offsets", Array(TaskOffset)),
    Field("task_end_offsets", Array(TaskOffset)),
    Field("assignment", Assignment),
    Field("target_assignment", Assignment),
    Field("is_classic", boolean),
)
DescribedGroup = StructType(
    "DescribedGroup",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("group_id", string),
    Field("group_state", string),
    Field("group_epoch", int32),
    Field("assignment_epoch", int32),
    Field("topology", Topology, nullable="0+", default=None),
    Field("members", Array(Member)),
    Field("authorized_operations", int32, default=-(2**31)),
)

STREAMS_GROUP_DESCRIBE = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions="0",
    flexible="0+",
    request=[
        Field("group_ids", Array(string)),
        Field("include_authorized_operations", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("groups", Array(DescribedGroup)),
    ],
)
