"""Heartbeat (key 12): stay a member of a classic group.

Versions: v1 throttle time; v3 static members (KIP-345); v4 flexible.
"""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Field

HEARTBEAT = Api(
    key=12,
    name="Heartbeat",
    versions="0-4",
    flexible="4+",
    request=[
        Field("group_id", string),
        Field("generation_id", int32),
        Field("member_id", string),
        Field("group_instance_id", string, "3+", nullable="3+", default=None),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16),
    ],
)
