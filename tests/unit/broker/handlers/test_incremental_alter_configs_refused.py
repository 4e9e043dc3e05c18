"""IncrementalAlterConfigs: refused changes. Error codes and messages are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from tests.support.config_broker import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    TOPIC,
    Change,
    ConfigBroker,
    change,
)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "abc")],
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (TOPIC, "t", [("no.such", SET, "1")], 40, "Unknown topic config name: no.such"),
        (TOPIC, "t", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("cleanup.policy", APPEND, None)], 42, "Null value not supported for : cleanup.policy"),
        (TOPIC, "t", [("retention.ms", 9, "1")], -1, None),
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            42,
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            "t",
            [("retention.ms", APPEND, "1")],
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            [("cleanup.policy", APPEND, "a,b")],
            40,
            "Invalid value a for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            TOPIC,
            "t",
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            40,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            TOPIC,
            "t",
            [("remote.storage.enable", SET, "true")],
            40,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (TOPIC, "missing", [("retention.ms", SET, "1")], 3, "The topic 'missing' does not exist."),
        (TOPIC, "", [("retention.ms", SET, "1")], 42, "Default topic resources are not allowed."),
        (TOPIC, ".", [("retention.ms", SET, "1")], 17, "Topic name is invalid: '.' is not allowed"),
        (3, "t", [("retention.ms", SET, "1")], 42, "Unknown resource type 3"),
        (BROKER, "1", [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (
            BROKER,
            "1",
            [("log.cleaner.threads", SET, "abc")],
            42,
            "Invalid value abc for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            BROKER,
            "",
            [("listeners", SET, "PLAINTEXT://x:1")],
            42,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            BROKER,
            "",
            [("listener.name.x.ssl.keystore.location", SET, "/x")],
            42,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listener.name.x.ssl.keystore.location]",
        ),
        (
            BROKER,
            "1",
            [("ssl.keystore.location", SET, "/x")],
            42,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        (BROKER, "1", [("of.a.plugin", APPEND, "1")], 40, "Unknown config name: of.a.plugin"),
        (
            BROKER,
            "1",
            [("log.cleaner.threads", APPEND, "1")],
            40,
            "Config value append is not allowed for config key: log.cleaner.threads",
        ),
        (
            BROKER,
            "1",
            [("principal.builder.class", SET, "foo")],
            42,
            "Invalid value foo for configuration principal.builder.class: Class foo could not be found.",
        ),
        (BROKER, "1", [("log.cleaner.threads", 9, "1")], 42, "Unknown operations type 9"),
        (BROKER, "2", [("log.cleaner.threads", SET, "1")], 42, "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "x", [("log.cleaner.threads", SET, "1")], 42, "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "1",
            [("group.consumer.assignment.interval.ms", SET, "99999999")],
            42,
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            BROKER,
            "1",
            [("listener.security.protocol.map", SET, "A:B")],
            42,
            "Invalid security protocol `B` defined in listener.security.protocol.map",
        ),
        (
            BROKER,
            "1",
            [("leader.replication.throttled.rate", SET, "abc")],
            42,
            "Invalid value abc for configuration leader.replication.throttled.rate: Not a number of type LONG",
        ),
        (
            BROKER,
            "",
            [("min.insync.replicas", DELETE, None)],
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            BROKER,
            "1",
            [("min.insync.replicas", SET, "2")],
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42, "Default group resources are not allowed."),
        (GROUP, "g", [("no.such", SET, "1")], 40, "Unknown group config name: no.such"),
        (
            GROUP,
            "g",
            [("consumer.session.timeout.ms", SET, "1")],
            40,
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            GROUP,
            "g",
            [("streams.num.standby.replicas", SET, "3")],
            40,
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        (METRICS, "", [("interval.ms", SET, "1000")], 42, "Subscription name can't be empty"),
        (METRICS, "s", [("foo", SET, "1")], 42, "Unknown client metrics configuration: foo"),
        (
            METRICS,
            "s",
            [("interval.ms", SET, "99")],
            42,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (METRICS, "s", [("match", SET, "client_id=[")], 40, "Illegal client matching pattern: client_id=["),
        (METRICS, "s", [("metrics", APPEND, "a")], 40, "Can't APPEND to key metrics because its type is not LIST."),
        (LOGGER, "1", [("nope", SET, "INFO")], 40, "Logger nope does not exist!"),
        (
            LOGGER,
            "1",
            [("root", SET, "debug")],
            40,
            "Cannot set the log level of root to debug as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (LOGGER, "1", [("root", DELETE, None)], 42, "Removing the log level of the root logger is not allowed"),
        (LOGGER, "1", [("root", APPEND, "INFO")], 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "1", [("root", 9, "INFO")], -1, None),
        (LOGGER, "2", [("root", SET, "INFO")], 42, "Unexpected node id. Expected 1, but received 2"),
        (LOGGER, "", [("root", SET, "INFO")], 42, "Node id must be an integer, but it is: "),
    ],
)
def test_refused(kind: int, name: str, changes: list[Change], code: int, message: str | None) -> None:
    """Nothing is recorded of a rejected resource, and the message is Kafka's."""
    broker = ConfigBroker("t")

    assert change(broker, (kind, name, changes)) == [(code, message)]
    assert broker.controller.batches == []
