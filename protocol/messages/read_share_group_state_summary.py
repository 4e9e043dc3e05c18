"""ReadShareGroupStateSummary (key 87): from the group coordinator to the share coordinator (KIP-932).

Versions: v1 count of delivered records (KIP-1226).
"""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

PartitionData = StructType(
    "PartitionData",
    Field("partition", int32),
    Field("leader_epoch", int32),
)
ReadStateSummaryData = StructType(
    "ReadStateSummaryData",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("state_epoch", int32),
    Field("leader_epoch", int32),
    Field("start_offset", int64),
    Field("delivery_complete_count", int32, "1+", default=-1, ignorable=True),
)
ReadStateSummaryResult = StructType(
    "ReadStateSummaryResult",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionResult)),
)

READ_SHARE_GROUP_STATE_SUMMARY = Api(
    key=87,
    name="ReadShareGroupStateSummary",
    versions="0-1",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(ReadStateSummaryData)),
    ],
    response=[
        Field("results", Array(ReadStateSummaryResult)),
    ],
)
