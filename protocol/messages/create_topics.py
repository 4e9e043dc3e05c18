"""CreateTopics (key 19): create topics.

Versions: v1 validate only, error messages; v2 throttle time; v4 defaults for partitions and replication factor
(KIP-464); v5 flexible, configs in responses (KIP-525); v6 quota errors (KIP-599); v7 topic ids (KIP-516).
"""

from protocol.primitives import boolean, int8, int16, int32, string, uuid
from protocol.schema import Api, Array, Field, StructType

CreatableReplicaAssignment = StructType(
    "CreatableReplicaAssignment",
    Field("partition_index", int32),
    Field("broker_ids", Array(int32)),
)
CreatableTopicConfig = StructType(
    "CreatableTopicConfig",
    Field("name", string),
    Field("value", string, nullable="0+"),
)
CreatableTopic = StructType(
    "CreatableTopic",
    Field("name", string),
    Field("num_partitions", int32),
    Field("replication_factor", int16),
    Field("assignments", Array(CreatableReplicaAssignment)),
    Field("configs", Array(CreatableTopicConfig)),
)
CreatableTopicConfigs = StructType(
    "CreatableTopicConfigs",
    Field("name", string, "5+"),
    Field("value", string, "5+", nullable="5+"),
    Field("read_only", boolean, "5+"),
    Field("config_source", int8, "5+", default=-1, ignorable=True),
    Field("is_sensitive", boolean, "5+"),
)
CreatableTopicResult = StructType(
    "CreatableTopicResult",
    Field("name", string),
    Field("topic_id", uuid, "7+", ignorable=True),
    Field("error_code", int16),
    Field("error_message", string, "1+", nullable="0+", ignorable=True),
    Field("topic_config_error_code", int16, "5+", tag=0, ignorable=True),
    Field("num_partitions", int32, "5+", default=-1, ignorable=True),
    Field("replication_factor", int16, "5+", default=-1, ignorable=True),
    Field("configs", Array(CreatableTopicConfigs), "5+", nullable="5+", ignorable=True),
)

CREATE_TOPICS = Api(
    key=19,
    name="CreateTopics",
    versions="0-7",
    current="2-7",
    flexible="5+",
    listeners="broker controller",
    request=[
        Field("topics", Array(CreatableTopic)),
        Field("timeout_ms", int32, default=60000),
        Field("validate_only", boolean, "1+"),
    ],
    response=[
        Field("throttle_time_ms", int32, "2+", ignorable=True),
        Field("topics", Array(CreatableTopicResult)),
    ],
)
