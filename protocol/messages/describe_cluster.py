"""DescribeCluster (key 60): nodes of the cluster (KIP-700).

Versions: v1 brokers or controllers (KIP-919); v2 fenced brokers (KIP-1073).
"""

from protocol.primitives import boolean, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

DescribeClusterBroker = StructType(
    "DescribeClusterBroker",
    Field("broker_id", int32),
    Field("host", string),
    Field("port", int32),
    Field("rack", string, nullable="0+", default=None),
    Field("is_fenced", boolean, "2+"),
)

DESCRIBE_CLUSTER = Api(
    key=60,
    name="DescribeCluster",
    versions="0-2",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("include_cluster_authorized_operations", boolean),
        Field("endpoint_type", int8, "1+", default=1),
        Field("include_fenced_brokers", boolean, "2+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("endpoint_type", int8, "1+", default=1),
        Field("cluster_id", string),
        Field("controller_id", int32, default=-1),
        Field("brokers", Array(DescribeClusterBroker)),
        Field("cluster_authorized_operations", int32, default=-(2**31)),
    ],
)
