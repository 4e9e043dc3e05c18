"""ListPartitionReassignments (key 46): list reassignments in progress (KIP-455)."""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ListPartitionReassignmentsTopics = StructType(
    "ListPartitionReassignmentsTopics",
    Field("name", string),
    Field("partition_indexes", Array(int32)),
)
OngoingPartitionReassignment = StructType(
    "OngoingPartitionReassignment",
    Field("partition_index", int32),
    Field("replicas", Array(int32)),
    Field("adding_replicas", Array(int32)),
    Field("removing_replicas", Array(int32)),
)
OngoingTopicReassignment = StructType(
    "OngoingTopicReassignment",
    Field("name", string),
    Field("partitions", Array(OngoingPartitionReassignment)),
)

LIST_PARTITION_REASSIGNMENTS = Api(
    key=46,
    name="ListPartitionReassignments",
    versions="0",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("timeout_ms", int32, default=60000),
        Field("topics", Array(ListPartitionReassignmentsTopics), nullable="0+", default=None),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("topics", Array(OngoingTopicReassignment)),
    ],
)
