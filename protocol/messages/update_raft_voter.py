"""UpdateRaftVoter (key 82): update the endpoints and versions of a voter (KIP-853)."""

from protocol.primitives import int16, int32, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

Listener = StructType(
    "Listener",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
)
KRaftVersionFeature = StructType(
    "KRaftVersionFeature",
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)
CurrentLeader = StructType(
    "CurrentLeader",
    Field("leader_id", int32, default=-1),
    Field("leader_epoch", int32, default=-1),
    Field("host", string),
    Field("port", int32),
)

UPDATE_RAFT_VOTER = Api(
    key=82,
    name="UpdateRaftVoter",
    versions="0",
    flexible="0+",
    listeners="controller",
    request=[
        Field("cluster_id", string, nullable="0+"),
        Field("current_leader_epoch", int32),
        Field("voter_id", int32),
        Field("voter_directory_id", uuid),
        Field("listeners", Array(Listener)),
        Field("kraft_version_feature", KRaftVersionFeature),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("current_leader", CurrentLeader, tag=0),
    ],
)
