"""InitializeShareGroupState (key 83): from the group coordinator to the share coordinator (KIP-932)."""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

PartitionData = StructType(
    "PartitionData",
    Field("partition", int32),
    Field("state_epoch", int32),
    Field("start_offset", int64),
)
InitializeStateData = StructType(
    "InitializeStateData",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)
InitializeStateResult = StructType(
    "InitializeStateResult",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionResult)),
)

INITIALIZE_SHARE_GROUP_STATE = Api(
    key=83,
    name="InitializeShareGroupState",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(InitializeStateData)),
    ],
    response=[
        Field("results", Array(InitializeStateResult)),
    ],
)
