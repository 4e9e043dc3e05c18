"""OffsetFetch (key 9): read a group's committed offsets.

Versions: v1 from the group coordinator; v2 null = all topics, top-level error (KIP-88); v3 throttle time; v5 leader
epoch (KIP-320); v6 flexible; v7 require stable (KIP-447); v8 many groups (KIP-709); v9 member epochs of consumer
groups (KIP-848); v10 topic ids (KIP-848).
"""

from protocol.primitives import boolean, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

OffsetFetchRequestTopic = StructType(
    "OffsetFetchRequestTopic",
    Field("name", string, "0-7"),
    Field("partition_indexes", Array(int32), "0-7"),
)
OffsetFetchRequestTopics = StructType(
    "OffsetFetchRequestTopics",
    Field("name", string, "8-9", ignorable=True),
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("partition_indexes", Array(int32), "8+"),
)
OffsetFetchRequestGroup = StructType(
    "OffsetFetchRequestGroup",
    Field("group_id", string, "8+"),
    Field("member_id", string, "9+", nullable="9+", default=None, ignorable=True),
    Field("member_epoch", int32, "9+", default=-1, ignorable=True),
    Field("topics", Array(OffsetFetchRequestTopics), "8+", nullable="8+"),
)
OffsetFetchResponsePartition = StructType(
    "OffsetFetchResponsePartition",
    Field("partition_index", int32, "0-7"),
    Field("committed_offset", int64, "0-7"),
    Field("committed_leader_epoch", int32, "5-7", default=-1, ignorable=True),
    Field("metadata", string, "0-7", nullable="0-7"),
    Field("error_code", int16, "0-7"),
)
OffsetFetchResponseTopic = StructType(
    "OffsetFetchResponseTopic",
    Field("name", string, "0-7"),
    Field("partitions", Array(OffsetFetchResponsePartition), "0-7"),
)
OffsetFetchResponsePartitions = StructType(
    "OffsetFetchResponsePartitions",
    Field("partition_index", int32, "8+"),
    Field("committed_offset", int64, "8+"),
    Field("committed_leader_epoch", int32, "8+", default=-1, ignorable=True),
    Field("metadata", string, "8+", nullable="8+"),
    Field("error_code", int16, "8+"),
)
OffsetFetchResponseTopics = StructType(
    "OffsetFetchResponseTopics",
    Field("name", string, "8-9", ignorable=True),
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("partitions", Array(OffsetFetchResponsePartitions), "8+"),
)
OffsetFetchResponseGroup = StructType(
    "OffsetFetchResponseGroup",
    Field("group_id", string, "8+"),
    Field("topics", Array(OffsetFetchResponseTopics), "8+"),
    Field("error_code", int16, "8+"),
)

OFFSET_FETCH = Api(
    key=9,
    name="OffsetFetch",
    versions="0-10",
    current="1-10",
    flexible="6+",
    request=[
        Field("group_id", string, "0-7"),
        Field("topics", Array(OffsetFetchRequestTopic), "0-7", nullable="2-7"),
        Field("groups", Array(OffsetFetchRequestGroup), "8+"),
        Field("require_stable", boolean, "7+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "3+", ignorable=True),
        Field("topics", Array(OffsetFetchResponseTopic), "0-7"),
        Field("error_code", int16, "2-7", ignorable=True),
        Field("groups", Array(OffsetFetchResponseGroup), "8+"),
    ],
)
