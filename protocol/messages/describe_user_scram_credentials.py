"""DescribeUserScramCredentials (key 50): which SCRAM credentials users have (KIP-554)."""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

UserName = StructType(
    "UserName",
    Field("name", string),
)
CredentialInfo = StructType(
    "CredentialInfo",
    Field("mechanism", int8),
    Field("iterations", int32),
)
DescribeUserScramCredentialsResult = StructType(
    "DescribeUserScramCredentialsResult",
    Field("user", string),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("credential_infos", Array(CredentialInfo)),
)

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions="0",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("users", Array(UserName), nullable="0+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("results", Array(DescribeUserScramCredentialsResult)),
    ],
)
