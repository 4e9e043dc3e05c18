"""LeaveGroup (key 13): members leave a classic group.

Versions: v1 throttle time; v3 many members, static ones by instance id (KIP-345); v4 flexible; v5 reason (KIP-800).
"""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

MemberIdentity = StructType(
    "MemberIdentity",
    Field("member_id", string, "3+"),
    Field("group_instance_id", string, "3+", nullable="3+", default=None),
    Field("reason", string, "5+", nullable="5+", default=None, ignorable=True),
)
MemberResponse = StructType(
    "MemberResponse",
    Field("member_id", string, "3+"),
    Field("group_instance_id", string, "3+", nullable="3+"),
    Field("error_code", int16, "3+"),
)

LEAVE_GROUP = Api(
    key=13,
    name="LeaveGroup",
    versions="0-5",
    flexible="4+",
    request=[
        Field("group_id", string),
        Field("member_id", string, "0-2"),
        Field("members", Array(MemberIdentity), "3+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16),
        Field("members", Array(MemberResponse), "3+"),
    ],
)
