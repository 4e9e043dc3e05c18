"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932).

Versions: v0 (early access) was removed.
"""

from protocol.primitives import boolean, int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

TopicPartitions = StructType(
    "TopicPartitions",
    Field("topic_id", uuid),
    Field("topic_name", string),
    Field("partitions", Array(int32)),
)
Assignment = StructType(
    "Assignment",
    Field("topic_partitions", Array(TopicPartitions)),
)
Member = StructType(
    "Member",
    Field("member_id", string),
    Field("rack_id", string, nullable="0+", default=None),
    Field("member_epoch", int32),
    Field("client_id", string),
    Field("client_host", string),
    Field("subscribed_topic_names", Array(string)),
    Field("assignment", Assignment),
)
DescribedGroup = StructType(
    "DescribedGroup",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("group_id", string),
    Field("group_state", string),
    Field("group_epoch", int32),
    Field("assignment_epoch", int32),
    Field("assignor_name", string),
    Field("members", Array(Member)),
    Field("authorized_operations", int32, default=-(2**31)),
)

SHARE_GROUP_DESCRIBE = Api(
    key=77,
    name="ShareGroupDescribe",
    versions="1",
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
