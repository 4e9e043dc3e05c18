"""ControlledShutdown (key 7): a broker asks the ZooKeeper controller to move its leaders. Removed in 4.0.

Versions: v0 has a request header without client id; v2 broker epoch (KIP-380); v3 flexible.
"""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

RemainingPartition = StructType(
    "RemainingPartition",
    Field("topic_name", string),
    Field("partition_index", int32),
)

CONTROLLED_SHUTDOWN = Api(
    key=7,
    name="ControlledShutdown",
    versions="0-3",
    current="none",
    flexible="3+",
    listeners="zkBroker controller",
    request=[
        Field("broker_id", int32),
        Field("broker_epoch", int64, "2+", default=-1, ignorable=True),
    ],
    response=[
        Field("error_code", int16),
        Field("remaining_partitions", Array(RemainingPartition)),
    ],
)
