"""Metadata (key 3): get brokers, topics and the leaders of partitions.

Versions: v1 racks, controller id, null = all topics; v2 cluster id (KIP-78); v3 throttle time; v4 auto-creation may be
declined (KIP-204); v5 offline replicas (KIP-112); v7 leader epochs (KIP-320); v8 authorised operations (KIP-430), of
the cluster up to v10 (KIP-700); v9 flexible; v10 topic ids in responses, v12 in requests (KIP-516); v13 top-level
error, REBOOTSTRAP_REQUIRED (KIP-1102).
"""

from protocol.primitives import boolean, int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

MetadataRequestTopic = StructType(
    "MetadataRequestTopic",
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("name", string, nullable="10+"),
)
MetadataResponseBroker = StructType(
    "MetadataResponseBroker",
    Field("node_id", int32),
    Field("host", string),
    Field("port", int32),
    Field("rack", string, "1+", nullable="1+", default=None, ignorable=True),
)
MetadataResponsePartition = StructType(
    "MetadataResponsePartition",
    Field("error_code", int16),
    Field("partition_index", int32),
    Field("leader_id", int32),
    Field("leader_epoch", int32, "7+", default=-1, ignorable=True),
    Field("replica_nodes", Array(int32)),
    Field("isr_nodes", Array(int32)),
    Field("offline_replicas", Array(int32), "5+", ignorable=True),
)
MetadataResponseTopic = StructType(
    "MetadataResponseTopic",
    Field("error_code", int16),
    Field("name", string, nullable="12+"),
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("is_internal", boolean, "1+", ignorable=True),
    Field("partitions", Array(MetadataResponsePartition)),
    Field("topic_authorized_operations", int32, "8+", default=-(2**31)),
)

METADATA = Api(
    key=3,
    name="Metadata",
    versions="0-13",
    flexible="9+",
    request=[
        Field("topics", Array(MetadataRequestTopic), nullable="1+"),
        Field("allow_auto_topic_creation", boolean, "4+", default=True),
        Field("include_cluster_authorized_operations", boolean, "8-10"),
        Field("include_topic_authorized_operations", boolean, "8+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "3+", ignorable=True),
        Field("brokers", Array(MetadataResponseBroker)),
        Field("cluster_id", string, "2+", nullable="2+", default=None, ignorable=True),
        Field("controller_id", int32, "1+", default=-1, ignorable=True),
        Field("topics", Array(MetadataResponseTopic)),
        Field("cluster_authorized_operations", int32, "8-10", default=-(2**31)),
        Field("error_code", int16, "13+", ignorable=True),
    ],
)
