"""DescribeTopicPartitions (key 75): topics and partitions in pages (KIP-966)."""

from protocol.primitives import boolean, int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

TopicRequest = StructType(
    "TopicRequest",
    Field("name", string),
)
Cursor = StructType(
    "Cursor",
    Field("topic_name", string),
    Field("partition_index", int32),
)
DescribeTopicPartitionsResponsePartition = StructType(
    "DescribeTopicPartitionsResponsePartition",
    Field("error_code", int16),
    Field("partition_index", int32),
    Field("leader_id", int32),
    Field("leader_epoch", int32, default=-1, ignorable=True),
    Field("replica_nodes", Array(int32)),
    Field("isr_nodes", Array(int32)),
    Field("eligible_leader_replicas", Array(int32), nullable="0+", default=None),
    Field("last_known_elr", Array(int32), nullable="0+", default=None),
    Field("offline_replicas", Array(int32), ignorable=True),
)
DescribeTopicPartitionsResponseTopic = StructType(
    "DescribeTopicPartitionsResponseTopic",
    Field("error_code", int16),
    Field("name", string, nullable="0+"),
    Field("topic_id", uuid, ignorable=True),
    Field("is_internal", boolean, ignorable=True),
    Field("partitions", Array(DescribeTopicPartitionsResponsePartition)),
    Field("topic_authorized_operations", int32, default=-(2**31)),
)

DESCRIBE_TOPIC_PARTITIONS = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions="0",
    flexible="0+",
    request=[
        Field("topics", Array(TopicRequest)),
        Field("response_partition_limit", int32, default=2000),
        Field("cursor", Cursor, nullable="0+", default=None),
    ],
    response=[
        Field("throttle_time_ms", int32, ignorable=True),
        Field("topics", Array(DescribeTopicPartitionsResponseTopic)),
        Field("next_cursor", Cursor, nullable="0+", default=None),
    ],
)
