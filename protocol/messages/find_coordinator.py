"""FindCoordinator (key 10): find the broker that coordinates a group, transactional id or share partition.

Versions: v1 key type, throttle time and error message (KIP-98); v3 flexible; v4 many keys (KIP-699); v5
TRANSACTION_ABORTABLE (KIP-890); v6 share groups (KIP-932).
"""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

Coordinator = StructType(
    "Coordinator",
    Field("key", string, "4+"),
    Field("node_id", int32, "4+"),
    Field("host", string, "4+"),
    Field("port", int32, "4+"),
    Field("error_code", int16, "4+"),
    Field("error_message", string, "4+", nullable="4+", ignorable=True),
)

FIND_COORDINATOR = Api(
    key=10,
    name="FindCoordinator",
    versions="0-6",
    flexible="3+",
    request=[
        Field("key", string, "0-3"),
        Field("key_type", int8, "1+"),
        Field("coordinator_keys", Array(string), "4+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16, "0-3"),
        Field("error_message", string, "1-3", nullable="1-3", ignorable=True),
        Field("node_id", int32, "0-3"),
        Field("host", string, "0-3"),
        Field("port", int32, "0-3"),
        Field("coordinators", Array(Coordinator), "4+"),
    ],
)
