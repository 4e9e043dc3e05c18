"""DeleteShareGroupState (key 86): from the group coordinator to the share coordinator (KIP-932)."""

from protocol.primitives import int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

PartitionData = StructType(
    "PartitionData",
    Field("partition", int32),
)
DeleteStateData = StructType(
    "DeleteStateData",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)
DeleteStateResult = StructType(
    "DeleteStateResult",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionResult)),
)

DELETE_SHARE_GROUP_STATE = Api(
    key=86,
    name="DeleteShareGroupState",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(DeleteStateData)),
    ],
    response=[
        Field("results", Array(DeleteStateResult)),
    ],
)
