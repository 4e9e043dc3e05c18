"""The shipped config/server.properties: a few settings, and common keys with their defaults."""

from __future__ import annotations

from .keys import BROKER_KEYS

_HEAD = """\
# A broker on one machine. Run it with: make run, or pybroker config/server.properties
#
# Written by python -m config.docs. Commented lines show the default, or an example where noted.
# All keys: docs/generated/configs.md. Apache Kafka's own server.properties works unchanged.
# Every key can also be set by an environment variable (PYBROKER_NUM_PARTITIONS=3) or by --override num.partitions=3.
"""

IN_FORCE = {
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092",
    "log.dirs": "./data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""The keys that the file sets."""

EXAMPLES = {
    "advertised.listeners": "PLAINTEXT://broker.example.org:9092",
    "broker.rack": "rack-1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.retention.ms": "86400000",
    "log.retention.minutes": "1440",
    "log.roll.ms": "86400000",
    "socket.receive.buffer.bytes": "-1",
    "socket.listen.backlog.size": "1024",
    "log.flush.interval.ms": "1000",
    "metadata.log.dir": "/fast/disk",
    "max.connections.per.ip.overrides": "10.0.0.1:100,10.0.0.2:200",
    "pybroker.cluster.id": "AAAAAAAAQACAAAAAAAAAAQ",
    "pybroker.topics": "orders:3;audit:1:cleanup.policy=compact,delete",
}
"""Keys with example values, because they have no useful default."""

CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("The node", ("node.id", "broker.rack", "pybroker.cluster.id")),
    (
        "Listeners and connections",
        (
            "listeners",
            "advertised.listeners",
            "listener.security.protocol.map",
            "inter.broker.listener.name",
            "max.connections",
            "max.connections.per.ip",
            "max.connections.per.ip.overrides",
            "max.connection.creation.rate",
            "connections.max.idle.ms",
            "socket.request.max.bytes",
            "socket.send.buffer.bytes",
            "socket.receive.buffer.bytes",
            "socket.listen.backlog.size",
            "queued.max.requests",
            "queued.max.request.bytes",
            "fetch.max.bytes",
        ),
    ),
    ("Data directories", ("log.dirs", "metadata.log.dir")),
    (
        "Topics",
        (
            "pybroker.topics",
            "auto.create.topics.enable",
            "delete.topic.enable",
            "num.partitions",
            "default.replication.factor",
            "message.max.bytes",
            "compression.type",
            "log.message.timestamp.type",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "pybroker.record.validation",
            "pybroker.legacy.versions",
        ),
    ),
    (
        "Retention",
        (
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
            "log.retention.bytes",
            "log.retention.check.interval.ms",
            "log.segment.delete.delay.ms",
        ),
    ),
    (
        "Segments",
        (
            "log.segment.bytes",
            "log.roll.ms",
            "log.roll.hours",
            "log.index.interval.bytes",
            "log.index.size.max.bytes",
            "log.preallocate",
        ),
    ),
    (
        "Compaction",
        (
            "log.cleanup.policy",
            "log.cleaner.enable",
            "log.cleaner.min.cleanable.ratio",
            "log.cleaner.min.compaction.lag.ms",
            "log.cleaner.max.compaction.lag.ms",
            "log.cleaner.delete.retention.ms",
            "log.cleaner.io.max.bytes.per.second",
        ),
    ),
    (
        "Syncing to disk: left to the operating system unless set",
        (
            "log.flush.interval.messages",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            "log.flush.offset.checkpoint.interval.ms",
        ),
    ),
    (
        "Groups and their offsets",
        (
            "group.initial.rebalance.delay.ms",
            "group.min.session.timeout.ms",
            "group.max.session.timeout.ms",
            "group.max.size",
            "offset.metadata.max.bytes",
            "offsets.retention.minutes",
            "offsets.topic.num.partitions",
            "offsets.topic.replication.factor",
        ),
    ),
    (
        "Producers and transactions",
        (
            "producer.id.expiration.ms",
            "transaction.max.timeout.ms",
            "transactional.id.expiration.ms",
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
        ),
    ),
    (
        "For Apache Kafka on the same data: docs/reference/interchange.md",
        ("process.roles", "controller.listener.names", "controller.quorum.bootstrap.servers"),
    ),
)


def server_properties() -> str:
    """Return the content of config/server.properties."""
    lines = [_HEAD]
    for title, keys in CHAPTERS:
        lines.append(f"\n{'#' * 20} {title} {'#' * 20}\n")
        for key in keys:
            lines.append(f"\n# {BROKER_KEYS[key].doc}\n{_setting(key)}\n")
    return "".join(lines)


def _setting(key: str) -> str:
    if key in IN_FORCE:
        return f"{key}={IN_FORCE[key]}"
    if key in EXAMPLES:
        return f"# (an example)\n#{key}={EXAMPLES[key]}"
    return f"#{key}={BROKER_KEYS[key].default_text or ''}"
