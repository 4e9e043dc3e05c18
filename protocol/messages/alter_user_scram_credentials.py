"""AlterUserScramCredentials (key 51): set and delete SCRAM credentials (KIP-554)."""

from protocol.primitives import bytestring, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ScramCredentialDeletion = StructType(
    "ScramCredentialDeletion",
    Field("name", string),
    Field("mechanism", int8),
)
ScramCredentialUpsertion = StructType(
    "ScramCredentialUpsertion",
    Field("name", string),
    Field("mechanism", int8),
    Field("iterations", int32),
    Field("salt", bytestring),
    Field("salted_password", bytestring),
)
AlterUserScramCredentialsResult = StructType(
    "AlterUserScramCredentialsResult",
    Field("user", string),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
)

ALTER_USER_SCRAM_CREDENTIALS = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions="0",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("deletions", Array(ScramCredentialDeletion)),
        Field("upsertions", Array(ScramCredentialUpsertion)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(AlterUserScramCredentialsResult)),
    ],
)
