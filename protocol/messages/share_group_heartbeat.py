"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group (KIP-932).

Versions: v0 (early access) was removed.
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

SHARE_GROUP_HEARTBEAT = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions="1",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("member_id", string),
        Field("member_epoch", int32),
        Field("rack_id", string, nullable="0+", default=None),
        Field("subscribed_topic_names", Array(string), nullable="0+", default=None),
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
