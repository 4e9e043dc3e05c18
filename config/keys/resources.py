"""Keys of the smaller resources: groups, client metrics subscriptions, users and clients."""

from ..key import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LIST, LONG, LONG_MAX, MEDIUM, STRING, ConfigKey
from ..validators import ListOf, OneOf, Range
from .special import OFFSET_RESET

# fmt: off
GROUP_RESOURCE_KEYS = (
    ConfigKey("consumer.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.assignment.interval.ms", 1),),
        doc="Time between two assignments of the group."),
    ConfigKey("consumer.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval given to the group's members."),
    ConfigKey("consumer.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member leaves the group."),
    ConfigKey("share.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.assignment.interval.ms", 1),),
        doc="Time between two assignments of the share group."),
    ConfigKey("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, MEDIUM, CLUSTER_WIDE,
        doc="Where a new share group begins: latest, earliest, or by_duration: and how long ago."),
    ConfigKey("share.delivery.count.limit", INT, 5, Range(2), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.delivery.count.limit", 1),),
        doc="Times that a record is delivered before it is given up."),
    ConfigKey("share.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval given to the share group's members."),
    ConfigKey("share.isolation.level", STRING, "read_uncommitted", OneOf("read_committed", "read_uncommitted"),
        MEDIUM, CLUSTER_WIDE,
        doc="Whether the share group sees records of open and aborted transactions."),
    ConfigKey("share.partition.max.record.locks", INT, 2000, Range(100), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.partition.max.record.locks", 1),),
        doc="Records of one partition that the share group may hold at a time."),
    ConfigKey("share.record.lock.duration.ms", INT, 30000, Range(1000), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.record.lock.duration.ms", 1),),
        doc="Time for which a record is held for one member."),
    ConfigKey("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, CLUSTER_WIDE,
        doc="Let members prolong the holding of a record."),
    ConfigKey("share.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member leaves the share group."),
    ConfigKey("streams.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.assignment.interval.ms", 1),),
        doc="Time between two assignments of the streams group."),
    ConfigKey("streams.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval given to the streams group's members."),
    ConfigKey("streams.initial.rebalance.delay.ms", INT, 3000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.initial.rebalance.delay.ms", 1),),
        doc="Time the empty streams group waits for more members before its first assignment."),
    ConfigKey("streams.num.standby.replicas", INT, 0, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.num.standby.replicas", 1),),
        doc="Standby copies of each stateful task."),
    ConfigKey("streams.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member leaves the streams group."),
)
# fmt: on

# fmt: off
CLIENT_METRICS_KEYS = (
    ConfigKey("interval.ms", INT, 300_000, None, MEDIUM, CLUSTER_WIDE,
        doc="Time between two reports of a client that matches."),
    ConfigKey("match", LIST, (), ListOf(), MEDIUM, CLUSTER_WIDE,
        doc="What a client must be, as attribute=pattern (RE2) with commas between; every client if empty."),
    ConfigKey("metrics", LIST, (), ListOf(), MEDIUM, CLUSTER_WIDE,
        doc="Prefixes of the names of the metrics to report; * for all, none if empty."),
)
# fmt: on

# fmt: off
QUOTA_KEYS = (
    ConfigKey("SCRAM-SHA-256", STRING, None, None, MEDIUM, CLUSTER_WIDE,
        doc="A user's password for SCRAM-SHA-256, as salt, key and iterations."),
    ConfigKey("SCRAM-SHA-512", STRING, None, None, MEDIUM, CLUSTER_WIDE,
        doc="A user's password for SCRAM-SHA-512, as salt, key and iterations."),
    ConfigKey("consumer_byte_rate", LONG, LONG_MAX, None, MEDIUM, CLUSTER_WIDE,
        doc="Bytes a second that may be fetched."),
    ConfigKey("controller_mutation_rate", DOUBLE, 2147483647.0, None, MEDIUM, CLUSTER_WIDE,
        doc="Partitions a second that may be created or deleted."),
    ConfigKey("producer_byte_rate", LONG, LONG_MAX, None, MEDIUM, CLUSTER_WIDE,
        doc="Bytes a second that may be produced."),
    ConfigKey("request_percentage", DOUBLE, 2147483647.0, None, MEDIUM, CLUSTER_WIDE,
        doc="Part of request time that may be used, 100 for one core."),
)
# fmt: on
