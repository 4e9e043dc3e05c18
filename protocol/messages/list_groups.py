"""ListGroups (key 16): the groups that this broker coordinates.

Versions: v1 throttle time; v3 flexible; v4 states (KIP-518); v5 types (KIP-848).
"""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ListedGroup = StructType(
    "ListedGroup",
    Field("group_id", string),
    Field("protocol_type", string),
    Field("group_state", string, "4+", ignorable=True),
    Field("group_type", string, "5+", ignorable=True),
)

LIST_GROUPS = Api(
    key=16,
    name="ListGroups",
    versions="0-5",
    flexible="3+",
    request=[
        Field("states_filter", Array(string), "4+"),
        Field("types_filter", Array(string), "5+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16),
        Field("groups", Array(ListedGroup)),
    ],
)
