"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a consumer group (KIP-848).

Versions: v1 regular expressions, member ids made by the client (KIP-1082).
"""

from protocol.primitives import int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

TopicPartitions = StructType(
    "TopicPartitions",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
)
Assignment = StructType(
    "Assignment",
    Field("topic_partitions", Array(TopicPartitions)),
)

CONSUMER_GROUP_HEARTBEAT = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("member_id", string),
        Field("member_epoch", int32),
        Field("instance_id", string, nullable="0+", default=None),
        Field("rack_id", string, nullable="0+", default=None),
        Field("rebalance_timeout_ms", int32, default=-1),
        Field("subscribed_topic_names", Array(string), nullable="0+", default=None),
        Field("subscribed_topic_regex", string, "1+", nullable="1+", default=None),
        Field("server_assignor", string, nullable="0+", default=None),
        Field("topic_partitions", Array(TopicPartitions), nullable="0+", default=None),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("member_id", string, nullable="0+", default=None),
        Field("member_epoch", int32),
        Field("heartbeat_interval_ms", int32),
        Field("assignment", Assignment, nullable="0+", default=None),
    ],
)
