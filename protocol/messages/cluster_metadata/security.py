"""Access control entries, SCRAM credentials and delegation tokens in `__cluster_metadata`."""

from protocol.primitives import bytestring, int8, int32, int64, string, uuid
from protocol.schema import Array, Field, Message

AccessControlEntryRecord = Message(
    "AccessControlEntryRecord",
    Field("id", uuid),
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("pattern_type", int8),
    Field("principal", string),
    Field("host", string),
    Field("operation", int8),
    Field("permission_type", int8),
    versions="0",
    flexible="0+",
    key=18,
)


RemoveAccessControlEntryRecord = Message(
    "RemoveAccessControlEntryRecord", Field("id", uuid), versions="0", flexible="0+", key=19
)


UserScramCredentialRecord = Message(
    "UserScramCredentialRecord",
    Field("name", string),
    Field("mechanism", int8),
    Field("salt", bytestring),
    Field("stored_key", bytestring),
    Field("server_key", bytestring),
    Field("iterations", int32),
    versions="0",
    flexible="0+",
    key=11,
)


RemoveUserScramCredentialRecord = Message(
    "RemoveUserScramCredentialRecord",
    Field("name", string),
    Field("mechanism", int8),
    versions="0",
    flexible="0+",
    key=22,
)


DelegationTokenRecord = Message(
    "DelegationTokenRecord",
    Field("owner", string),
    Field("requester", string),
    Field("renewers", Array(string)),
    Field("issue_timestamp", int64),
    Field("max_timestamp", int64),
    Field("expiration_timestamp", int64),
    Field("token_id", string),
    versions="0",
    flexible="0+",
    key=10,
)


RemoveDelegationTokenRecord = Message(
    "RemoveDelegationTokenRecord", Field("token_id", string), versions="0", flexible="0+", key=26
)
