"""BrokerHeartbeat (key 63): a broker reports to the controller that it is alive (KIP-631).

Versions: v1 offline directories (KIP-858); v2 cordoned directories (KIP-1066).
"""

from protocol.primitives import boolean, int16, int32, int64, uuid
from protocol.schema import Api, Array, Field

BROKER_HEARTBEAT = Api(
    key=63,
    name="BrokerHeartbeat",
    versions="0-2",
    flexible="0+",
    listeners="controller",
    request=[
        Field("broker_id", int32),
        Field("broker_epoch", int64, default=-1),
        Field("current_metadata_offset", int64),
        Field("want_fence", boolean),
        Field("want_shut_down", boolean),
        Field("offline_log_dirs", Array(uuid), "1+", tag=0),
        Field("cordoned_log_dirs", Array(uuid), "2+", nullable="2+", tag=1, default=None),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("is_caught_up", boolean),
        Field("is_fenced", boolean, default=True),
        Field("should_shut_down", boolean),
    ],
)
