"""Values in force: precedence, dynamic values, and subscribers."""

from __future__ import annotations

import logging

import pytest

from config import (
    BrokerConfig,
    ConfigError,
    Password,
    load,
)
from config.dynamic import check_dynamic


@pytest.fixture
def config() -> BrokerConfig:
    return load(overrides={"log.cleaner.threads": "2"})


def test_precedence(config: BrokerConfig) -> None:
    """KIP-226: the broker's dynamic value, the cluster's dynamic default, the file, the default."""
    assert config.get_int("log.cleaner.threads") == 2
    config.apply_dynamic({"log.cleaner.threads": "3"}, {})
    assert config.get_int("log.cleaner.threads") == 3
    config.apply_dynamic({"log.cleaner.threads": "3"}, {"log.cleaner.threads": "4"})
    assert config.get_int("log.cleaner.threads") == 4
    config.apply_dynamic({}, {})
    assert config.get_int("log.cleaner.threads") == 2


def test_typed_values(config: BrokerConfig) -> None:
    assert config.get_bool("delete.topic.enable") is True
    assert config.get_float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.get_list("log.cleanup.policy") == ("delete",)
    assert config.get_list("advertised.listeners") == ()
    assert config.get_str("compression.type") == "producer"
    assert config.get_str("broker.rack") is None
    assert config.get("ssl.key.password") is None
    with pytest.raises(KeyError):
        config.get("no.such")


def test_subscribers_are_called_once_after_a_change(config: BrokerConfig) -> None:
    """Only for their keys, with all new values in force."""
    calls: list[tuple[int, bool]] = []

    def note(config: BrokerConfig) -> None:
        calls.append((config.get_int("log.cleaner.threads"), config.get_bool("log.preallocate")))

    config.subscribe(("log.cleaner.threads", "log.preallocate"), note)
    config.apply_dynamic({"log.cleaner.threads": "3", "log.preallocate": "true"}, {})
    config.apply_dynamic({"log.cleaner.threads": "3", "log.preallocate": "true"}, {})
    config.apply_dynamic({"log.cleaner.threads": "3", "log.preallocate": "true", "message.max.bytes": "9"}, {})

    assert calls == [(3, True)]


def test_subscribers_are_called_for_listener_prefixed_keys(config: BrokerConfig) -> None:
    """These keys are not in the table, but they can be subscribed to."""
    calls: list[object] = []
    config.subscribe(
        "listener.name.plaintext.max.connections",
        lambda config: calls.append(config.get_for_listener("PLAINTEXT", "max.connections")),
    )
    config.apply_dynamic({}, {"listener.name.plaintext.max.connections": "9"})
    config.apply_dynamic({}, {})

    assert calls == [9, 2147483647]


def test_secrets_of_a_listener(config: BrokerConfig) -> None:
    """The listener's own value wins over the common one."""
    config = load(overrides={"ssl.key.password": "a", "listener.name.tls.ssl.key.password": "b"})

    assert config.get_for_listener("TLS", "ssl.key.password") == Password("b")
    assert config.get_for_listener("OTHER", "ssl.key.password") == Password("a")


@pytest.mark.parametrize(
    ("cluster", "own"),
    [
        ({"log.cleaner.threads": "many"}, {}),
        ({"num.partitions": "7"}, {}),
        ({}, {"num.partitions": "7"}),
        ({"cordoned.log.dirs": "*"}, {}),
    ],
)
def test_invalid_stored_values_are_ignored(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, cluster: dict[str, str], own: dict[str, str]
) -> None:
    """Another version may have written them; the broker starts nevertheless."""
    with caplog.at_level(logging.WARNING):
        config.apply_dynamic({**cluster, "log.preallocate": "true"}, own)

    assert "left out" in caplog.text
    assert config.get_bool("log.preallocate")
    assert (config.get_int("log.cleaner.threads"), config.get_int("num.partitions")) == (2, 1)
    assert not set(cluster) & set(config.cluster_default)


def test_stored_values_that_break_a_rule_are_ignored(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    """All static values stay in force."""
    with caplog.at_level(logging.WARNING):
        config.apply_dynamic({"log.retention.ms": "0", "log.preallocate": "true"}, {})

    assert "not used" in caplog.text
    assert config.get("log.retention.ms") is None
    assert not config.get_bool("log.preallocate")


def test_invalid_stored_listeners_are_ignored(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    """The open listeners stay."""
    with caplog.at_level(logging.WARNING):
        config.apply_dynamic({}, {"listeners": "PLAINTEXT://nowhere"})

    assert "not used" in caplog.text
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]


@pytest.mark.parametrize("addresses", [{}, {"advertised.listeners": "PLAINTEXT://example.org:9092"}])
def test_a_dynamic_listener_address_has_no_effect(addresses: dict[str, str]) -> None:
    """KIP-226, as in Kafka: the broker advertises the address that is open."""
    config = load(overrides={"listeners": "PLAINTEXT://127.0.0.1:9092", **addresses})
    calls = config.advertised("PLAINTEXT")
    check_dynamic(config, {"listeners": "PLAINTEXT://127.0.0.1:1"}, per_broker=True)
    config.apply_dynamic({}, {"listeners": "PLAINTEXT://127.0.0.1:1"})

    assert config.advertised("PLAINTEXT") == calls
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.get("listeners") == ("PLAINTEXT://127.0.0.1:1",)


@pytest.mark.parametrize("listeners", ["PLAINTEXT://:9092,SSL://:9093", "SSL://:9092"])
def test_listeners_are_not_opened_or_closed_dynamically(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, listeners: str
) -> None:
    """A request is rejected. A value that was stored before is ignored."""
    with pytest.raises(ConfigError):
        check_dynamic(config, {"listeners": listeners}, per_broker=True)
    with caplog.at_level(logging.WARNING):
        config.apply_dynamic({}, {"listeners": listeners})

    assert "not used" in caplog.text
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]


@pytest.mark.parametrize(
    ("settings", "value"),
    [({}, 1), ({"offsets.topic.replication.factor": "3"}, 3), ({"offsets.topic.replication.factor": "1"}, 1)],
)
def test_internal_topics_have_at_most_one_replica_per_broker(settings: dict[str, str], value: int) -> None:
    """As in Kafka, an explicit value that is too high is used, and fails."""
    assert load(overrides=settings).internal_topic_value("offsets.topic.replication.factor", 1) == value


def test_fewer_replicas_are_logged_once(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    """One line per key, however often it is read."""
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert config.internal_topic_value("transaction.state.log.min.isr", 1) == 1
        assert config.internal_topic_value("transaction.state.log.min.isr", 2) == 2

    assert len(caplog.records) == 1


def test_a_changed_default_applies_to_topics(config: BrokerConfig) -> None:
    """S28.2: a topic's own value wins over the broker's, even when the broker's changes."""
    assert "log.retention.ms" in config.topic_defaults_keys
    config.apply_dynamic({"log.retention.ms": "1000", "log.segment.bytes": "2000000"}, {})

    assert config.log_config().retention_ms == 1000
    assert config.log_config({"retention.ms": "5"}).retention_ms == 5
    assert config.log_config({"retention.ms": "5"}).segment_bytes == 2_000_000


def test_dynamic_intervals_are_capped_to_the_limits(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka 4.3: otherwise none of the dynamic values would be in force."""
    config = load(
        overrides={
            "group.streams.max.assignment.interval.ms": "2000",
            "group.share.min.assignment.interval.ms": "500",
        }
    )
    config.apply_dynamic(
        {
            "group.streams.assignment.interval.ms": "3000",
            "group.share.assignment.interval.ms": "100",
            "group.consumer.assignment.interval.ms": "3000",
            "log.cleaner.threads": "2",
        },
        {},
    )

    assert config.get_int("group.streams.assignment.interval.ms") == 2_000
    assert config.get_int("group.share.assignment.interval.ms") == 500
    assert config.get_int("group.consumer.assignment.interval.ms") == 3_000
    assert config.get_int("log.cleaner.threads") == 2
    assert caplog.text.count(": using ") == 2
