"""Keys of earlier Kafka versions and their current equivalents."""

from __future__ import annotations

import pytest

from config import load


@pytest.mark.parametrize(
    ("settings", "listeners"),
    [
        ({"port": "9093"}, "PLAINTEXT://:9093"),
        ({"host.name": "h", "port": "9093"}, "PLAINTEXT://h:9093"),
        ({"host.name": "h"}, "PLAINTEXT://h:9092"),
        ({"host.name": "::1"}, "PLAINTEXT://[::1]:9092"),
        ({"port": "9093", "listeners": "PLAINTEXT://:9094"}, "PLAINTEXT://:9094"),
    ],
)
def test_port_and_host_are_a_listener(settings: dict[str, str], listeners: str) -> None:
    """S27.3, S27.9; explicit listeners win."""
    assert ",".join(map(str, load(overrides=settings).listeners)) == listeners


def test_advertised_host_and_port_are_an_advertised_listener() -> None:
    """Removed in 3.0, but still in many files."""
    config = load(overrides={"advertised.host.name": "h", "advertised.port": "1"})

    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://h:1"]


@pytest.mark.parametrize("key", ["log.delete.delay.ms", "file.delete.delay.ms"])
def test_deletion_delay(key: str) -> None:
    """S27.37, S27.64."""
    assert load(overrides={key: "5"}).log_config().file_delete_delay_ms == 5


def test_timestamp_difference_limits_both_directions() -> None:
    """As in Kafka 3.9; the current keys win."""
    former = "log.message.timestamp.difference.max.ms"
    config = load(overrides={former: "5", "log.message.timestamp.after.max.ms": "7"}).log_config()

    assert config.message_timestamp_before_max_ms == 5
    assert config.message_timestamp_after_max_ms == 7


def test_group_share_enable_adds_the_protocol() -> None:
    """An internal key of 3.9."""
    protocols = "group.coordinator.rebalance.protocols"

    assert "share" in load(overrides={"group.share.enable": "true"}).get_list(protocols)
    assert "share" not in load(overrides={"group.share.enable": "false"}).get_list(protocols)


@pytest.mark.parametrize(
    "key",
    ["port", "log.delete.delay.ms", "zookeeper.connect", "inter.broker.protocol.version", "replica.lag.max.messages"],
)
def test_earlier_keys_have_a_warning(key: str) -> None:
    """Once, with the current key or the reason why there is none."""
    value = {"inter.broker.protocol.version": "3.9-IV0", "zookeeper.connect": "localhost:2181"}.get(key, "1000")
    (warning,) = load(overrides={key: value}).warnings

    assert key in warning
