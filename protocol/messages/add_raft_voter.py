"""AddRaftVoter (key 80): add a voter to the metadata quorum (KIP-853).

Versions: v1 may respond before the change is committed (KIP-1186).
"""

from protocol.primitives import boolean, int16, int32, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

Listener = StructType(
    "Listener",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
)

ADD_RAFT_VOTER = Api(
    key=80,
    name="AddRaftVoter",
    versions="0-1",
    flexible="0+",
    listeners="controller broker",
    request=[
        Field("cluster_id", string, nullable="0+"),
        Field("timeout_ms", int32),
        Field("voter_id", int32),
        Field("voter_directory_id", uuid),
        Field("listeners", Array(Listener)),
        Field("ack_when_committed", boolean, "1+", default=True),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", ignorable=True),
    ],
)
