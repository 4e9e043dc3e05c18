"""JoinGroup (key 11): become a member of a classic group.

Versions: v1 rebalance timeout (KIP-62); v2 throttle time; v4 MEMBER_ID_REQUIRED first (KIP-394); v5 static members
(KIP-345); v6 flexible; v7 protocol type in responses (KIP-559); v8 reason (KIP-800); v9 the leader may skip the
assignment (KIP-814).
"""

from protocol.primitives import boolean, bytestring, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

JoinGroupRequestProtocol = StructType(
    "JoinGroupRequestProtocol",
    Field("name", string),
    Field("metadata", bytestring),
)
JoinGroupResponseMember = StructType(
    "JoinGroupResponseMember",
    Field("member_id", string),
    Field("group_instance_id", string, "5+", nullable="5+", default=None, ignorable=True),
    Field("metadata", bytestring),
)

JOIN_GROUP = Api(
    key=11,
    name="JoinGroup",
    versions="0-9",
    flexible="6+",
    request=[
        Field("group_id", string),
        Field("session_timeout_ms", int32),
        Field("rebalance_timeout_ms", int32, "1+", default=-1, ignorable=True),
        Field("member_id", string),
        Field("group_instance_id", string, "5+", nullable="5+", default=None),
        Field("protocol_type", string),
        Field("protocols", Array(JoinGroupRequestProtocol)),
        Field("reason", string, "8+", nullable="8+", default=None, ignorable=True),
    ],
    response=[
        Field("throttle_time_ms", int32, "2+", ignorable=True),
        Field("error_code", int16),
        Field("generation_id", int32, default=-1),
        Field("protocol_type", string, "7+", nullable="7+", default=None, ignorable=True),
        Field("protocol_name", string, nullable="7+"),
        Field("leader", string),
        Field("skip_assignment", boolean, "9+"),
        Field("member_id", string),
        Field("members", Array(JoinGroupResponseMember)),
    ],
)
