"""Classic groups in `__consumer_offsets`: record type 2."""

from protocol.primitives import bytestring, int32, int64, string
from protocol.schema import Array, Field, Message, StructType

GroupMetadataKey = Message("GroupMetadataKey", Field("group", string, "0"), versions="0", key=2)


MemberMetadata = StructType(
    "MemberMetadata",
    Field("member_id", string),
    Field("group_instance_id", string, "3+", nullable="3+", default=None, ignorable=True),
    Field("client_id", string),
    Field("client_host", string),
    Field("rebalance_timeout", int32, "1+", default=-1, ignorable=True),
    Field("session_timeout", int32),
    Field("subscription", bytestring),
    Field("assignment", bytestring),
)
GroupMetadataValue = Message(
    "GroupMetadataValue",
    Field("protocol_type", string),
    Field("generation", int32),
    Field("protocol", string, nullable="0+"),
    Field("leader", string, nullable="0+"),
    Field("current_state_timestamp", int64, "2+", default=-1, ignorable=True),
    Field("members", Array(MemberMetadata)),
    versions="0-4",
    flexible="4+",
    key=2,
)
