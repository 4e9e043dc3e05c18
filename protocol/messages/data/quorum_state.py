"""The content of the `quorum-state` file: JSON with these fields."""

from protocol.primitives import int32, int64, string, uuid
from protocol.schema import Array, Field, Message, StructType

Voter = StructType(
    "Voter",
    Field("voter_id", int32, "0"),
)
QuorumStateData = Message(
    "QuorumStateData",
    Field("cluster_id", string, "0"),
    Field("leader_id", int32, default=-1),
    Field("leader_epoch", int32, default=-1),
    Field("voted_id", int32, default=-1),
    Field("voted_directory_id", uuid, "1+"),
    Field("applied_offset", int64, "0"),
    Field("current_voters", Array(Voter), "0", nullable="0"),
    versions="0-1",
    flexible="0+",
)
