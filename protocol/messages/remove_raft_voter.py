"""RemoveRaftVoter (key 81): remove a voter from the metadata quorum (KIP-853)."""

from protocol.primitives import int16, int32, string, uuid
from protocol.schema import Api, Field

REMOVE_RAFT_VOTER = Api(
    key=81,
    name="RemoveRaftVoter",
    versions="0",
    flexible="0+",
    listeners="controller broker",
    request=[
        Field("cluster_id", string, nullable="0+"),
        Field("voter_id", int32),
        Field("voter_directory_id", uuid),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", ignorable=True),
    ],
)
