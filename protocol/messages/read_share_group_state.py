"""ReadShareGroupState (key 84): from a partition leader to the share coordinator (KIP-932)."""

from protocol.primitives import int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

PartitionData = StructType(
    "PartitionData",
    Field("partition", int32),
    Field("leader_epoch", int32),
)
ReadStateData = StructType(
    "ReadStateData",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
StateBatch = StructType(
    "StateBatch",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("delivery_state", int8),
    Field("delivery_count", int16),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("state_epoch", int32),
    Field("start_offset", int64),
    Field("state_batches", Array(StateBatch)),
)
ReadStateResult = StructType(
    "ReadStateResult",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionResult)),
)

READ_SHARE_GROUP_STATE = Api(
    key=84,
    name="ReadShareGroupState",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(ReadStateData)),
    ],
    response=[
        Field("results", Array(ReadStateResult)),
    ],
)
