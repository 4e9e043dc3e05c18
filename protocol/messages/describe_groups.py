"""DescribeGroups (key 15): state and members of classic groups.

Versions: v1 throttle time; v3 authorised operations (KIP-430); v4 static members (KIP-345); v5 flexible; v6 error
message and GROUP_ID_NOT_FOUND (KIP-1043).
"""

from protocol.primitives import boolean, bytestring, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

DescribedGroupMember = StructType(
    "DescribedGroupMember",
    Field("member_id", string),
    Field("group_instance_id", string, "4+", nullable="4+", default=None, ignorable=True),
    Field("client_id", string),
    Field("client_host", string),
    Field("member_metadata", bytestring),
    Field("member_assignment", bytestring),
)
DescribedGroup = StructType(
    "DescribedGroup",
    Field("error_code", int16),
    Field("error_message", string, "6+", nullable="6+", default=None),
    Field("group_id", string),
    Field("group_state", string),
    Field("protocol_type", string),
    Field("protocol_data", string),
    Field("members", Array(DescribedGroupMember)),
    Field("authorized_operations", int32, "3+", default=-(2**31)),
)

DESCRIBE_GROUPS = Api(
    key=15,
    name="DescribeGroups",
    versions="0-6",
    flexible="5+",
    request=[
        Field("groups", Array(string)),
        Field("include_authorized_operations", boolean, "3+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("groups", Array(DescribedGroup)),
    ],
)
