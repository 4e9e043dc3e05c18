"""IncrementalAlterConfigs. Error codes and messages are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import logging

import pytest

from broker.handlers.incremental_alter_configs import incremental_alter_configs
from metadata.features import CORDONED_DIRECTORIES_LEVEL, METADATA_VERSION
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.schema import Struct
from runtime import logs
from runtime.deferred import Deferred
from tests.support.config_broker import ConfigBroker
from tests.support.wire_frames import recorded_frames

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32

Change = tuple[str, int, str | None]


def change(
    broker: ConfigBroker, *resources: tuple[int, str, list[Change]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = INCREMENTAL_ALTER_CONFIGS.request(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=how, value=to) for key, how, to in changes],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = broker.ask(incremental_alter_configs, INCREMENTAL_ALTER_CONFIGS, 1, request)
    return _results(answer)


def _results(answer: Struct) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in answer.responses]


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
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            "g",
            [("streams.num.standby.replicas", SET, "3")],
            40,
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
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


@pytest.mark.parametrize("changes", [("cordoned.log.dirs", SET, "*"), ("cordoned.log.dirs", DELETE, None)])
def test_directories_are_cordoned_from_metadata_version_4_3_on(changes: Change) -> None:
    broker = ConfigBroker()
    broker.controller.image.features[METADATA_VERSION] = CORDONED_DIRECTORIES_LEVEL - 1
    message = "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"

    assert change(broker, (BROKER, "1", [changes])) == [(40, message)]
    assert broker.controller.batches == []


def test_a_worker_has_the_configuration_of_the_first_one() -> None:
    """It is altered under the first worker's id. Levels of loggers are set under the id of any worker."""
    broker = ConfigBroker(settings={"num.workers": "2"})
    message = "Unexpected broker id, expected 1, but received 2, a worker that has the configuration of the first one"
    assert change(broker, (BROKER, "2", [("log.cleaner.threads", SET, "1")])) == [(42, message)]
    assert change(broker, (LOGGER, "2", [("root", SET, "INFO")]), validate_only=True) == [(0, None)]
    refused = change(broker, (LOGGER, "3", [("root", SET, "INFO")]), validate_only=True)
    assert refused == [(42, "Unexpected node id. Expected 1, but received 3")]


@pytest.mark.parametrize(
    ("kind", "name", "changes"),
    [
        (TOPIC, "t", [("no.such", DELETE, None)]),
        (TOPIC, "t", [("retention.ms", DELETE, "x")]),
        (TOPIC, "t", []),
        (BROKER, "1", [("num.partitions", DELETE, None)]),
        (BROKER, "1", [("my.plugin", SET, "1")]),
        (BROKER, "1", [("listener.name.plaintext.num.partitions", SET, "1")]),
        (BROKER, "", [("listener.name.plaintext.max.connections", SET, "9")]),
        (BROKER, "1", [("cordoned.log.dirs", SET, "*")]),
        (BROKER, "", [("leader.replication.throttled.rate", SET, "1000")]),
        (GROUP, "g", [("share.isolation.level", SET, "read_committed")]),
        (METRICS, "s", [("match", SET, "client_id=a,client_source_port=.*"), ("metrics", SET, "*")]),
    ],
)
def test_taken(kind: int, name: str, changes: list[Change]) -> None:
    """Brokers also accept unknown keys, because plugins have keys of their own."""
    assert change(ConfigBroker("t"), (kind, name, changes)) == [(0, None)]


def test_lists_grow_and_shrink() -> None:
    """KIP-339: a list that is not set starts from its default. The order stays, and the list may become empty."""
    broker = ConfigBroker("t")

    def after(how: int, entries: str) -> str | None:
        assert change(broker, (TOPIC, "t", [("cleanup.policy", how, entries)])) == [(0, None)]
        return broker.controller.image.topic_config("t").get("cleanup.policy")

    assert after(APPEND, "compact") == "delete,compact"
    assert after(APPEND, "compact,delete") == "delete,compact"
    assert after(SUBTRACT, "delete") == "compact"
    assert after(SUBTRACT, "compact") == ""
    assert after(DELETE, "") is None


def test_a_resource_changes_as_a_whole_and_alone() -> None:
    """One bad value rejects its resource. The others are changed, in one batch."""
    broker = ConfigBroker("t", "u", "v")

    assert [
        code
        for code, _ in change(
            broker,
            (TOPIC, "t", [("retention.ms", SET, "5")]),
            (TOPIC, "u", [("retention.ms", SET, "5"), ("segment.ms", SET, "x")]),
            (TOPIC, "v", [("retention.ms", SET, "6")]),
        )
    ] == [0, 40, 0]
    assert len(broker.controller.batches) == 1
    assert broker.controller.image.topic_config("t") == {"retention.ms": "5"}
    assert broker.controller.image.topic_config("u") == {}


def test_a_repeated_resource_is_rejected_both_times() -> None:
    """Another resource in the same request is changed."""
    broker = ConfigBroker("t", "u")
    twice = (TOPIC, "t", [("retention.ms", SET, "5")])

    assert change(broker, twice, twice, (TOPIC, "u", [("retention.ms", SET, "5")])) == [
        (42, "Each resource must appear at most once."),
        (42, "Each resource must appear at most once."),
        (0, None),
    ]


def test_validate_only_changes_nothing() -> None:
    """Neither the metadata nor the levels of loggers change."""
    logs.setup("INFO")
    broker = ConfigBroker("t")

    assert change(
        broker, (TOPIC, "t", [("retention.ms", SET, "5")]), (LOGGER, "1", [("root", SET, "TRACE")]), validate_only=True
    ) == [(0, None), (0, None)]
    assert broker.controller.batches == []
    assert logging.getLogger().level == logs.LEVELS["INFO"]


def test_dynamic_broker_values_take_effect_at_once() -> None:
    """KIP-226: this broker's own value precedes the cluster default. Subscribers are notified once."""
    broker = ConfigBroker()
    told: list[int] = []
    broker.config.subscribe("log.cleaner.threads", lambda config: told.append(config.get_int("log.cleaner.threads")))

    change(broker, (BROKER, "", [("log.cleaner.threads", SET, "2")]))
    change(broker, (BROKER, "1", [("log.cleaner.threads", SET, "3")]))
    change(broker, (BROKER, "", [("log.cleaner.threads", SET, "4")]))
    change(broker, (BROKER, "1", [("log.cleaner.threads", DELETE, None)]))
    change(broker, (BROKER, "1", [("message.max.bytes", SET, "4")]))

    assert told == [2, 3, 4]
    assert broker.config.log_config().max_message_bytes == 4


def test_levels_of_loggers() -> None:
    """KIP-412: a level is set, and inherited again, by Kafka's logger name or ours.

    A bad level rejects the resource.
    """
    logs.setup("INFO")
    broker = ConfigBroker()

    assert change(broker, (LOGGER, "1", [("kafka.network.Processor", SET, "TRACE"), ("storage", SET, "ERROR")])) == [
        (0, None)
    ]
    assert logging.getLogger("broker.network").level == logs.LEVELS["TRACE"]
    assert logging.getLogger("storage").level == logs.LEVELS["ERROR"]
    change(broker, (LOGGER, "1", [("broker.network", DELETE, None), ("storage", DELETE, None)]))
    assert logging.getLogger("broker.network").getEffectiveLevel() == logs.LEVELS["INFO"]
    change(broker, (LOGGER, "1", [("root", SET, "ERROR"), ("nope", SET, "INFO")]))
    assert logging.getLogger().level == logs.LEVELS["INFO"]
    assert broker.controller.batches == []


def test_recorded_requests_are_answered_as_kafka_did() -> None:
    """Both versions: one resource that is changed, one that is rejected."""
    broker = ConfigBroker("sweep2", "sweep3")
    frames = [frame for frame in recorded_frames("sweep-admin.tsv") if frame.api is INCREMENTAL_ALTER_CONFIGS]

    for request, response in zip(frames[::2], frames[1::2], strict=True):
        asked, _ = request.message.decode(request.version, request.data, request.position)
        expected, _ = response.message.decode(response.version, response.data, response.position)
        assert broker.ask(incremental_alter_configs, INCREMENTAL_ALTER_CONFIGS, request.version, asked) == expected


def test_a_failing_disk_fails_the_request() -> None:
    """A change that could not be recorded must not be acknowledged."""
    broker = ConfigBroker("t")
    failed: Deferred[None] = Deferred()
    failed.fail(OSError("disk full"))
    broker.controller.submit = lambda records: failed  # type: ignore[method-assign]

    with pytest.raises(OSError, match="disk full"):
        change(broker, (TOPIC, "t", [("retention.ms", SET, "5")]))


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (TOPIC, "ea", "topic ea"),
        (BROKER, "7", "broker 7"),
        (BROKER, "", "all brokers"),
        (METRICS, "m", "client metrics m"),
        (99, "x", "x (of unknown type 99)"),
    ],
)
def test_a_rejection_is_logged_in_words(kind: int, name: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log line names the resource type. Its number belongs to the protocol."""
    caplog.set_level(logging.INFO, "broker.config_changes")
    ((code, message),) = change(ConfigBroker(), (kind, name, [("log.retention.ms", SET, "abc")]))

    assert code
    assert [f"The configuration of {words} is not changed: {message}"] == caplog.messages
