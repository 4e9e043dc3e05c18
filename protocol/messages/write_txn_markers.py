"""WriteTxnMarkers (key 27): the transaction coordinator makes leaders write commit and abort markers (KIP-98).

Versions: v1 flexible; v2 transaction version (KIP-1228).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

WritableTxnMarkerTopic = StructType(
    "WritableTxnMarkerTopic",
    Field("name", string),
    Field("partition_indexes", Array(int32)),
)
WritableTxnMarker = StructType(
    "WritableTxnMarker",
    Field("producer_id", int64),
    Field("producer_epoch", int16),
    Field("transaction_result", boolean),
    Field("topics", Array(WritableTxnMarkerTopic)),
    Field("coordinator_epoch", int32),
    Field("transaction_version", int8, "2+", ignorable=True),
)
WritableTxnMarkerPartitionResult = StructType(
    "WritableTxnMarkerPartitionResult",
    Field("partition_index", int32),
    Field("error_code", int16),
)
WritableTxnMarkerTopicResult = StructType(
    "WritableTxnMarkerTopicResult",
    Field("name", string),
    Field("partitions", Array(WritableTxnMarkerPartitionResult)),
)
WritableTxnMarkerResult = StructType(
    "WritableTxnMarkerResult",
    Field("producer_id", int64),
    Field("topics", Array(WritableTxnMarkerTopicResult)),
)

WRITE_TXN_MARKERS = Api(
    key=27,
    name="WriteTxnMarkers",
    versions="0-2",
    current="1-2",
    flexible="1+",
    request=[
        Field("markers", Array(WritableTxnMarker)),
    ],
    response=[
        Field("markers", Array(WritableTxnMarkerResult)),
    ],
)
