"""SyncGroup (key 14): the leader sends the assignments, and every member gets its own.

Versions: v1 throttle time; v3 static members (KIP-345); v4 flexible; v5 protocol type and name (KIP-559).
"""

from protocol.primitives import bytestring, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

SyncGroupRequestAssignment = StructType(
    "SyncGroupRequestAssignment",
    Field("member_id", string),
    Field("assignment", bytestring),
)

SYNC_GROUP = Api(
    key=14,
    name="SyncGroup",
    versions="0-5",
    flexible="4+",
    request=[
        Field("group_id", string),
        Field("generation_id", int32),
        Field("member_id", string),
        Field("group_instance_id", string, "3+", nullable="3+", default=None),
        Field("protocol_type", string, "5+", nullable="5+", default=None, ignorable=True),
        Field("protocol_name", string, "5+", nullable="5+", default=None, ignorable=True),
        Field("assignments", Array(SyncGroupRequestAssignment)),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16),
        Field("protocol_type", string, "5+", nullable="5+", default=None, ignorable=True),
        Field("protocol_name", string, "5+", nullable="5+", default=None, ignorable=True),
        Field("assignment", bytestring),
    ],
)
