"""Keys of replication between brokers."""

from ..key import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LONG, LONG_MAX, LOW, MEDIUM, READ_ONLY, STRING, ConfigKey
from ..validators import Range
from .why_inert import NO_LATE_FOLLOWERS, ONE_REPLICA

# fmt: off
REPLICATION_KEYS = (
    ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, Range(1), LOW, READ_ONLY,
        doc="Number of samples for the quota on moving replicas between log directories."),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, Range(1), LOW, READ_ONLY,
        doc="Length of a sample for the quota on moving replicas between log directories."),
    ConfigKey("replication.quota.window.num", INT, 11, Range(1), LOW, READ_ONLY, inert=ONE_REPLICA,
        doc="Number of samples for the replication quotas."),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, Range(1), LOW, READ_ONLY, inert=ONE_REPLICA,
        doc="Length of a sample for the replication quotas."),
    ConfigKey("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        doc="Processes that move replicas between log directories. Default: 1 (in Apache Kafka one per directory)."),
    ConfigKey("num.replica.fetchers", INT, 1, Range(1), HIGH, CLUSTER_WIDE, inert=ONE_REPLICA,
        doc="Threads that fetch from each of the other brokers."),
    ConfigKey("replica.fetch.backoff.ms", INT, 1000, Range(0), MEDIUM, READ_ONLY, inert=ONE_REPLICA,
        doc="Backoff of a follower after a failed fetch."),
    ConfigKey("replica.fetch.max.bytes", INT, 1_048_576, Range(0), MEDIUM, READ_ONLY, inert=ONE_REPLICA,
        doc="Most bytes of a partition in one fetch of a follower."),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="Bytes for which a follower's fetch is answered at once."),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10_485_760, Range(0), MEDIUM, READ_ONLY, inert=ONE_REPLICA,
        doc="Most bytes in one fetch of a follower."),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="Longest wait of a follower's fetch."),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="Interval of writing the high watermarks."),
    ConfigKey("replica.lag.time.max.ms", LONG, 30000, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="Time after which a follower that has not caught up is out of sync."),
    ConfigKey("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY, inert=ONE_REPLICA,
        doc="Class that chooses the replica from which a consumer reads."),
    ConfigKey("replica.socket.receive.buffer.bytes", INT, 65536, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="SO_RCVBUF of a follower's connections; if it is not set, the system's default."),
    ConfigKey("replica.socket.timeout.ms", INT, 30000, None, HIGH, READ_ONLY, inert=ONE_REPLICA,
        doc="Timeout of a follower's requests."),
    ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        inert=NO_LATE_FOLLOWERS,
        doc="A new follower starts at the last offset in tiered storage."),
)
# fmt: on

# fmt: off
DYNAMIC_ONLY_KEYS = (
    ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE, inert=ONE_REPLICA,
        doc="Bytes per second that leaders send for throttled replicas."),
    ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE, inert=ONE_REPLICA,
        doc="Bytes per second that followers fetch for throttled replicas."),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE,
        doc="Bytes per second that are copied between log directories."),
)
# fmt: on
