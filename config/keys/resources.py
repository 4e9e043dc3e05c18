"""Keys of the smaller resources: groups, client metrics subscriptions, users and clients."""

from ..key import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LIST, LONG, LONG_MAX, LOW, MEDIUM, STRING, ConfigKey
from ..validators import ListOf, OneOf, Range
from .special import OFFSET_RESET

# fmt: off
GROUP_RESOURCE_KEYS = (
    ConfigKey("consumer.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.assignment.interval.ms", 1),),
        doc="Shortest time between two assignments of the group."),
    ConfigKey("consumer.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval of the group's members."),
    ConfigKey("consumer.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.consumer.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member is removed from the group."),
    ConfigKey("share.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.assignment.interval.ms", 1),),
        doc="Shortest time between two assignments of the share group."),
    ConfigKey("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, MEDIUM, CLUSTER_WIDE,
        doc="Start of a new share group: latest, earliest, or by_duration:DURATION, that long ago."),
    ConfigKey("share.delivery.count.limit", INT, 5, Range(2), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.delivery.count.limit", 1),),
        doc="Number of deliveries after which a record is archived."),
    ConfigKey("share.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval of the share group's members."),
    ConfigKey("share.isolation.level", STRING, "read_uncommitted", OneOf("read_committed", "read_uncommitted"),
        MEDIUM, CLUSTER_WIDE,
        doc="Whether the share group reads records of open and aborted transactions."),
    ConfigKey("share.partition.max.record.locks", INT, 2000, Range(100), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.partition.max.record.locks", 1),),
        doc="Most records of a partition that the share group may have acquired."),
    ConfigKey("share.record.lock.duration.ms", INT, 30000, Range(1000), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.record.lock.duration.ms", 1),),
        doc="How long a member may keep an acquired record."),
    ConfigKey("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, CLUSTER_WIDE,
        doc="Members may renew the lock of an acquired record."),
    ConfigKey("share.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.share.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member is removed from the share group."),
    ConfigKey("streams.acceptable.recovery.lag", LONG, 10000, Range(0), MEDIUM, CLUSTER_WIDE, internal=True,
        synonyms=(("group.streams.acceptable.recovery.lag", 1),),
        doc="Lag of a changelog up to which a member may take a task over at once."),
    ConfigKey("streams.assignment.interval.ms", INT, 1000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.assignment.interval.ms", 1),),
        doc="Shortest time between two assignments of the streams group."),
    ConfigKey("streams.heartbeat.interval.ms", INT, 5000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.heartbeat.interval.ms", 1),),
        doc="Heartbeat interval of the streams group's members."),
    ConfigKey("streams.initial.rebalance.delay.ms", INT, 3000, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.initial.rebalance.delay.ms", 1),),
        doc="How long the empty streams group waits for more members before its first assignment."),
    ConfigKey("streams.num.standby.replicas", INT, 0, Range(0), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.num.standby.replicas", 1),),
        doc="Number of standbys of each stateful task."),
    ConfigKey("streams.rack.aware.assignment.tags", LIST, (), None, LOW, CLUSTER_WIDE,
        synonyms=(("group.streams.rack.aware.assignment.tags", 1),),
        doc="Client tags that the streams group's members must have; those without get a status."),
    ConfigKey("streams.session.timeout.ms", INT, 45000, Range(1), MEDIUM, CLUSTER_WIDE,
        synonyms=(("group.streams.session.timeout.ms", 1),),
        doc="Time without a heartbeat after which a member is removed from the streams group."),
    ConfigKey("streams.task.offset.interval.ms", INT, 60000, Range(1), MEDIUM, CLUSTER_WIDE, internal=True,
        synonyms=(("group.streams.task.offset.interval.ms", 1),),
        doc="How often members report the offsets of their tasks."),
)
# fmt: on

# fmt: off
CLIENT_METRICS_KEYS = (
    ConfigKey("interval.ms", INT, 300_000, None, MEDIUM, CLUSTER_WIDE,
        doc="Interval of the reports of a matching client."),
    ConfigKey("match", LIST, (), ListOf(), MEDIUM, CLUSTER_WIDE,
        doc="Clients to match, as attribute=pattern (RE2), separated by commas; empty: all clients."),
    ConfigKey("metrics", LIST, (), ListOf(), MEDIUM, CLUSTER_WIDE,
        doc="Prefixes of the names of the metrics to report; *: all; empty: none."),
)
# fmt: on

# fmt: off
QUOTA_KEYS = (
    ConfigKey("SCRAM-SHA-256", STRING, None, None, MEDIUM, CLUSTER_WIDE,
        doc="A user's password for SCRAM-SHA-256, as salt, key and iterations."),
    ConfigKey("SCRAM-SHA-512", STRING, None, None, MEDIUM, CLUSTER_WIDE,
        doc="A user's password for SCRAM-SHA-512, as salt, key and iterations."),
    ConfigKey("consumer_byte_rate", LONG, LONG_MAX, None, MEDIUM, CLUSTER_WIDE,
        doc="Most bytes per second to fetch."),
    ConfigKey("controller_mutation_rate", DOUBLE, 2147483647.0, None, MEDIUM, CLUSTER_WIDE,
        doc="Most partitions per second to create or delete."),
    ConfigKey("producer_byte_rate", LONG, LONG_MAX, None, MEDIUM, CLUSTER_WIDE,
        doc="Most bytes per second to produce."),
    ConfigKey("request_percentage", DOUBLE, 2147483647.0, None, MEDIUM, CLUSTER_WIDE,
        doc="Share of request time in percent of one core."),
)
# fmt: on
