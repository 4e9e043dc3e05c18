"""DeleteRecords (key 21): raise the log start offset of partitions (KIP-107).

Versions: v2 flexible.
"""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

DeleteRecordsPartition = StructType(
    "DeleteRecordsPartition",
    Field("partition_index", int32),
    Field("offset", int64),
)
DeleteRecordsTopic = StructType(
    "DeleteRecordsTopic",
    Field("name", string),
    Field("partitions", Array(DeleteRecordsPartition)),
)
DeleteRecordsPartitionResult = StructType(
    "DeleteRecordsPartitionResult",
    Field("partition_index", int32),
    Field("low_watermark", int64),
    Field("error_code", int16),
)
DeleteRecordsTopicResult = StructType(
    "DeleteRecordsTopicResult",
    Field("name", string),
    Field("partitions", Array(DeleteRecordsPartitionResult)),
)

DELETE_RECORDS = Api(
    key=21,
    name="DeleteRecords",
    versions="0-2",
    flexible="2+",
    request=[
        Field("topics", Array(DeleteRecordsTopic)),
        Field("timeout_ms", int32),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("topics", Array(DeleteRecordsTopicResult)),
    ],
)
