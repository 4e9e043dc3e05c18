"""WriteShareGroupState (key 85): from a partition leader to the share coordinator (KIP-932).

Versions: v1 count of delivered records (KIP-1226).
"""

from protocol.primitives import int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

StateBatch = StructType(
    "StateBatch",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("delivery_state", int8),
    Field("delivery_count", int16),
)
PartitionData = StructType(
    "PartitionData",
    Field("partition", int32),
    Field("state_epoch", int32),
    Field("leader_epoch", int32),
    Field("start_offset", int64),
    Field("delivery_complete_count", int32, "1+", default=-1, ignorable=True),
    Field("state_batches", Array(StateBatch)),
)
WriteStateData = StructType(
    "WriteStateData",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)
WriteStateResult = StructType(
    "WriteStateResult",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionResult)),
)

WRITE_SHARE_GROUP_STATE = Api(
    key=85,
    name="WriteShareGroupState",
    versions="0-1",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(WriteStateData)),
    ],
    response=[
        Field("results", Array(WriteStateResult)),
    ],
)
