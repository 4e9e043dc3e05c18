"""Cluster-wide records in `__cluster_metadata`: features, controllers, producer ids, metadata transactions."""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uint16, uuid
from protocol.schema import Array, Field, Message, StructType

FeatureLevelRecord = Message(
    "FeatureLevelRecord", Field("name", string), Field("feature_level", int16), versions="0", flexible="0+", key=12
)


ControllerEndpoint = StructType(
    "ControllerEndpoint",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
    Field("security_protocol", int16),
)
ControllerFeature = StructType(
    "ControllerFeature",
    Field("name", string),
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)
RegisterControllerRecord = Message(
    "RegisterControllerRecord",
    Field("controller_id", int32),
    Field("incarnation_id", uuid),
    Field("zk_migration_ready", boolean),
    Field("end_points", Array(ControllerEndpoint)),
    Field("features", Array(ControllerFeature)),
    versions="0",
    flexible="0+",
    key=27,
)


UnregisterControllerRecord = Message(
    "UnregisterControllerRecord", Field("controller_id", int32), versions="0", flexible="0+", key=29
)


ProducerIdsRecord = Message(
    "ProducerIdsRecord",
    Field("broker_id", int32),
    Field("broker_epoch", int64, default=-1),
    Field("next_producer_id", int64),
    versions="0",
    flexible="0+",
    key=15,
)


ZkMigrationStateRecord = Message(
    "ZkMigrationStateRecord", Field("zk_migration_state", int8), versions="0", flexible="0+", key=21
)


BeginTransactionRecord = Message(
    "BeginTransactionRecord",
    Field("name", string, nullable="0+", tag=0, default=None),
    versions="0",
    flexible="0+",
    key=23,
)


EndTransactionRecord = Message("EndTransactionRecord", versions="0", flexible="0+", key=24)


AbortTransactionRecord = Message(
    "AbortTransactionRecord",
    Field("reason", string, nullable="0+", tag=0, default=None),
    versions="0",
    flexible="0+",
    key=25,
)


NoOpRecord = Message("NoOpRecord", versions="0", flexible="0+", key=20)
