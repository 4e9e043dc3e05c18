"""DeleteTopics (key 20): delete topics.

Versions: v1 throttle time; v3 TOPIC_DELETION_DISABLED; v4 flexible; v5 error messages, quota errors (KIP-599); v6
topic ids (KIP-516).
"""

from protocol.primitives import int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

DeleteTopicState = StructType(
    "DeleteTopicState",
    Field("name", string, "6+", nullable="6+", default=None),
    Field("topic_id", uuid, "6+"),
)
DeletableTopicResult = StructType(
    "DeletableTopicResult",
    Field("name", string, nullable="6+"),
    Field("topic_id", uuid, "6+", ignorable=True),
    Field("error_code", int16),
    Field("error_message", string, "5+", nullable="5+", default=None, ignorable=True),
)

DELETE_TOPICS = Api(
    key=20,
    name="DeleteTopics",
    versions="0-6",
    current="1-6",
    flexible="4+",
    listeners="broker controller",
    request=[
        Field("topics", Array(DeleteTopicState), "6+"),
        Field("topic_names", Array(string), "0-5", ignorable=True),
        Field("timeout_ms", int32),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("responses", Array(DeletableTopicResult)),
    ],
)
