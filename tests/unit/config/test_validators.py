"""Invalid values, in the words of Kafka 4.3.1, which its tools print."""

from __future__ import annotations

import pytest

from config.errors import Problem
from config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from config.values import Password

KEYS = {**BROKER_KEYS, **TOPIC_KEYS, **GROUP_KEYS}


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "1000", "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "compact,", "Configuration 'cleanup.policy' values must not be empty."),
        ("log.dirs", "", "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value"),
        ("log.dirs", "/a,,/b", "Configuration 'log.dirs' values must not be empty."),
        (
            "process.roles",
            "",
            "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.lz4.level",
            "18",
            "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "group.consumer.migration.policy",
            "foo",
            "Invalid value foo for configuration group.consumer.migration.policy: "
            "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
        ),
        (
            "leader.replication.throttled.replicas",
            "foo",
            "Invalid value [foo] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas "
            "in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            "share.auto.offset.reset",
            "none",
            "Invalid value none for configuration share.auto.offset.reset: Invalid value `none` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
        ("remote.log.storage.manager.impl.prefix", "", None),
        ("controller.quorum.voters", "1@", None),
        ("controller.quorum.bootstrap.servers", "a", None),
    ],
)
def test_invalid_values(key: str, text: str, message: str | None) -> None:
    """The message has value, key and reason; messages of our own are not compared."""
    problem = KEYS[key].read(text)

    assert isinstance(problem, Problem)
    assert message is None or message == problem.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("retention.ms", "-1"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,compact"),
        ("compression.gzip.level", "-1"),
        ("group.consumer.migration.policy", "Upgrade"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "1:2,3:4"),
        ("leader.replication.throttled.replicas", ""),
        ("share.auto.offset.reset", "by_duration:P1DT1H2.5S"),
        ("share.auto.offset.reset", "earliest"),
        ("controller.quorum.voters", "1@localhost:9093,2@[::1]:9094"),
        ("controller.quorum.bootstrap.servers", "localhost:9093,[::1]:9094"),
        ("authorizer.class.name", ""),
        ("inter.broker.protocol.version", "3.9-IV0"),
    ],
)
def test_valid_values(key: str, text: str) -> None:
    """Values that Kafka accepts."""
    assert not isinstance(KEYS[key].read(text), Problem)


def test_equal_entries_of_a_list_count_once() -> None:
    """As in Kafka since 4.2."""
    assert KEYS["log.dirs"].read("/a,/b,/a") == ("/a", "/b")


def test_an_invalid_secret_is_not_shown() -> None:
    """Neither in the line for operators nor in the message to clients."""
    problem = Problem("ssl.key.password", None, "bad")

    assert "[hidden]" in problem.message
    assert str(problem) == "ssl.key.password: bad"
    assert Password("x") == KEYS["ssl.key.password"].read("x")
