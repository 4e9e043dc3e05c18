"""DeleteShareGroupOffsets (key 92): delete the offsets of topics from a share group (KIP-932)."""

from protocol.primitives import int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

DeleteShareGroupOffsetsRequestTopic = StructType(
    "DeleteShareGroupOffsetsRequestTopic",
    Field("topic_name", string),
)
DeleteShareGroupOffsetsResponseTopic = StructType(
    "DeleteShareGroupOffsetsResponseTopic",
    Field("topic_name", string),
    Field("topic_id", uuid),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)

DELETE_SHARE_GROUP_OFFSETS = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(DeleteShareGroupOffsetsRequestTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("responses", Array(DeleteShareGroupOffsetsResponseTopic)),
    ],
)
