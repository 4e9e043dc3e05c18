"""Brokers in `__cluster_metadata`: registration, fencing and changes of it."""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uint16, uuid
from protocol.schema import Array, Field, Message, StructType

BrokerEndpoint = StructType(
    "BrokerEndpoint",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
    Field("security_protocol", int16),
)
BrokerFeature = StructType(
    "BrokerFeature",
    Field("name", string),
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)
RegisterBrokerRecord = Message(
    "RegisterBrokerRecord",
    Field("broker_id", int32),
    Field("is_migrating_zk_broker", boolean, "2+"),
    Field("incarnation_id", uuid),
    Field("broker_epoch", int64),
    Field("end_points", Array(BrokerEndpoint)),
    Field("features", Array(BrokerFeature)),
    Field("rack", string, nullable="0+"),
    Field("fenced", boolean, default=True),
    Field("in_controlled_shutdown", boolean, "1+"),
    Field("log_dirs", Array(uuid), "3+", tag=0),
    Field("cordoned_log_dirs", Array(uuid), "4+", nullable="4+", tag=1, default=None),
    versions="0-4",
    flexible="0+",
    key=0,
)


UnregisterBrokerRecord = Message(
    "UnregisterBrokerRecord",
    Field("broker_id", int32),
    Field("broker_epoch", int64),
    versions="0",
    flexible="0+",
    key=1,
)


FenceBrokerRecord = Message(
    "FenceBrokerRecord", Field("id", int32), Field("epoch", int64), versions="0", flexible="0+", key=7
)


UnfenceBrokerRecord = Message(
    "UnfenceBrokerRecord", Field("id", int32), Field("epoch", int64), versions="0", flexible="0+", key=8
)


BrokerRegistrationChangeRecord = Message(
    "BrokerRegistrationChangeRecord",
    Field("broker_id", int32),
    Field("broker_epoch", int64),
    Field("fenced", int8, tag=0),
    Field("in_controlled_shutdown", int8, "1+", tag=1),
    Field("log_dirs", Array(uuid), "2+", tag=2),
    Field("cordoned_log_dirs", Array(uuid), "3+", nullable="3+", tag=3, default=None),
    versions="0-3",
    flexible="0+",
    key=17,
)
