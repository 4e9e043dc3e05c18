"""DeleteGroups (key 42): delete empty groups (KIP-229).

Versions: v2 flexible; v3 error messages (KIP-1331).
"""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

DeletableGroupResult = StructType(
    "DeletableGroupResult",
    Field("group_id", string),
    Field("error_code", int16),
    Field("error_message", string, "3+", nullable="3+", default=None, ignorable=True),
)

DELETE_GROUPS = Api(
    key=42,
    name="DeleteGroups",
    versions="0-3",
    flexible="2+",
    request=[
        Field("groups_names", Array(string)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(DeletableGroupResult)),
    ],
)
