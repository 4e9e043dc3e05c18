"""IncrementalAlterConfigs. Error codes and messages are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import logging

import pytest

from broker.handlers.incremental_alter_configs import incremental_alter_configs
from metadata.features import CORDONED_DIRECTORIES_LEVEL, METADATA_VERSION
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
)
from runtime import logs
from runtime.deferred import Deferred
from tests.support.config_broker import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    ConfigBroker,
    change,
)
from tests.support.wire_frames import recorded_frames


@pytest.mark.parametrize("changes", [("cordoned.log.dirs", SET, "*"), ("cordoned.log.dirs", DELETE, None)])
def test_directories_are_cordoned_from_metadata_version_4_3_on(changes: Change) -> None:
    broker = ConfigBroker()
    broker.controller.image.features[METADATA_VERSION] = CORDONED_DIRECTORIES_LEVEL - 1
    message = "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"

    assert change(broker, (BROKER, "1", [changes])) == [(40, message)]
    assert broker.controller.batches == []


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


def test_a_list_grows_to_the_longest_value_of_a_record() -> None:
    """A longer one could not be written into the metadata log."""
    broker = ConfigBroker("t")

    def append(text: str) -> list[tuple[int, str | None]]:
        return change(broker, (TOPIC, "t", [("leader.replication.throttled.replicas", APPEND, text)]))

    assert append(",".join(f"{index:05}:1" for index in range(4095))) == [(0, None)]
    assert append("0:123456") == [
        (40, "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.")
    ]
    assert append("0:12345") == [(0, None)]
    assert len(broker.controller.image.topic_config("t")["leader.replication.throttled.replicas"]) == 32_767


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
    calls: list[int] = []
    broker.config.subscribe("log.cleaner.threads", lambda config: calls.append(config.get_int("log.cleaner.threads")))

    change(broker, (BROKER, "", [("log.cleaner.threads", SET, "2")]))
    change(broker, (BROKER, "1", [("log.cleaner.threads", SET, "3")]))
    change(broker, (BROKER, "", [("log.cleaner.threads", SET, "4")]))
    change(broker, (BROKER, "1", [("log.cleaner.threads", DELETE, None)]))
    change(broker, (BROKER, "1", [("message.max.bytes", SET, "4")]))

    assert calls == [2, 3, 4]
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
