"""Keys and values of control records."""

from protocol.primitives import int16, int32, int64, string, uint16, uuid
from protocol.schema import Array, Field, Message, StructType

ControlRecordTypeSchema = Message("ControlRecordTypeSchema", Field("type", int16), versions="0")


EndTxnMarker = Message("EndTxnMarker", Field("coordinator_epoch", int32), versions="0")


LeaderChangeMessageVoter = StructType(
    "LeaderChangeMessageVoter",
    Field("voter_id", int32),
    Field("voter_directory_id", uuid, "1+"),
)
LeaderChangeMessage = Message(
    "LeaderChangeMessage",
    Field("version", int16),
    Field("leader_id", int32),
    Field("voters", Array(LeaderChangeMessageVoter)),
    Field("granting_voters", Array(LeaderChangeMessageVoter)),
    versions="0-1",
    flexible="0+",
)


SnapshotHeaderRecord = Message(
    "SnapshotHeaderRecord",
    Field("version", int16),
    Field("last_contained_log_timestamp", int64),
    versions="0",
    flexible="0+",
)


SnapshotFooterRecord = Message("SnapshotFooterRecord", Field("version", int16), versions="0", flexible="0+")


KRaftVersionRecord = Message(
    "KRaftVersionRecord", Field("version", int16), Field("kraft_version", int16), versions="0", flexible="0+"
)


Endpoint = StructType(
    "Endpoint",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
)
KRaftVersionFeature = StructType(
    "KRaftVersionFeature",
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)
VotersVoter = StructType(
    "VotersVoter",
    Field("voter_id", int32),
    Field("voter_directory_id", uuid),
    Field("endpoints", Array(Endpoint)),
    Field("kraft_version_feature", KRaftVersionFeature),
)
VotersRecord = Message(
    "VotersRecord", Field("version", int16), Field("voters", Array(VotersVoter)), versions="0", flexible="0+"
)
