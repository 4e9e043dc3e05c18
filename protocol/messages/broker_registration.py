"""BrokerRegistration (key 62): a broker registers with the controller (KIP-631).

Versions: v1 migration from ZooKeeper (KIP-866); v2 log directories (KIP-858); v3 previous epoch (KIP-966); v4 features
from version 0 on (KAFKA-17011).
"""

from protocol.primitives import boolean, int16, int32, int64, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

Listener = StructType(
    "Listener",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
    Field("security_protocol", int16),
)
Feature = StructType(
    "Feature",
    Field("name", string),
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)

BROKER_REGISTRATION = Api(
    key=62,
    name="BrokerRegistration",
    versions="0-4",
    flexible="0+",
    listeners="controller",
    request=[
        Field("broker_id", int32),
        Field("cluster_id", string),
        Field("incarnation_id", uuid),
        Field("listeners", Array(Listener)),
        Field("features", Array(Feature)),
        Field("rack", string, nullable="0+"),
        Field("is_migrating_zk_broker", boolean, "1+"),
        Field("log_dirs", Array(uuid), "2+", ignorable=True),
        Field("previous_broker_epoch", int64, "3+", default=-1, ignorable=True),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("broker_epoch", int64, default=-1),
    ],
)
