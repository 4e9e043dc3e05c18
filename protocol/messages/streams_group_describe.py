"""StreamsGroupDescribe (key 89): state, topology and members of streams groups (KIP-1071).

Versions: v1 the description of the topology (KIP-1331), the assignor (KIP-1357).
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
TopologyDescriptionNode = StructType(
    "TopologyDescriptionNode",
    Field("name", string, "1+"),
    Field("node_type", int8, "1+"),
    Field("source_topics", Array(string), "1+"),
    Field("sink_topic", string, "1+", nullable="1+", default=None),
    Field("stores", Array(string), "1+"),
    Field("successors", Array(string), "1+"),
)
TopologyDescriptionSubtopology = StructType(
    "TopologyDescriptionSubtopology",
    Field("subtopology_id", string, "1+"),
    Field("nodes", Array(TopologyDescriptionNode), "1+"),
)
TopologyDescriptionGlobalStore = StructType(
    "TopologyDescriptionGlobalStore",
    Field("source", TopologyDescriptionNode, "1+"),
    Field("processor", TopologyDescriptionNode, "1+"),
)
TopologyDescription = StructType(
    "TopologyDescription",
    Field("subtopologies", Array(TopologyDescriptionSubtopology), "1+"),
    Field("global_stores", Array(TopologyDescriptionGlobalStore), "1+"),
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
    Field("topology_description", TopologyDescription, "1+", nullable="1+", default=None),
    Field("topology_description_status", int8, "1+"),
    Field("assignor_name", string, "1+", nullable="1+", default=None, ignorable=True),
)

STREAMS_GROUP_DESCRIBE = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions="0-1",
    flexible="0+",
    request=[
        Field("group_ids", Array(string)),
        Field("include_authorized_operations", boolean),
        Field("include_topology_description", boolean, "1+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("groups", Array(DescribedGroup)),
    ],
)
