"""Mistyped keys and keys of plugins."""

from __future__ import annotations

import pytest

from config.unknown import (
    dynamic_row_of,
    row_of,
    unknown_key_reason,
    without_listener,
)


@pytest.mark.parametrize(
    "key",
    [
        "num.partitions",
        "zookeeper.connect",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "listener.name.internal.ssl.keystore.location",
        "listener.name.x.my.plugin",
        "sasl.my.plugin.setting",
        "client.quota.callback.static.produce",
        "config.providers.file.class",
        "rsm.config.bucket",
        f"rsm.config.{'q' * 5_000_000}",
    ],
)
def test_known_keys_have_no_reason(key: str) -> None:
    """Known keys, and keys of plugins."""
    assert unknown_key_reason(key) is None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("log.retention.hour", "did you mean log.retention.hours?"),
        ("sasl.enabled.mechanism", "did you mean sasl.enabled.mechanisms?"),
        ("retention.ms", "log.retention.ms or log.retention.minutes or log.retention.hours"),
        ("remote.storage.enable", "a topic key"),
        ("message.format.version", "a topic key"),
        ("qqq", "unknown key"),
        ("q" * 5_000_000, "unknown key"),
    ],
)
def test_reasons(key: str, reason: str) -> None:
    """The nearest key; for a topic's key the broker's equivalent."""
    assert reason in (unknown_key_reason(key) or "")


@pytest.mark.parametrize(
    ("key", "base"),
    [
        ("listener.name.a.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.a.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a.oauthbearer.connections.max.reauth.ms", "connections.max.reauth.ms"),
        ("num.partitions", "num.partitions"),
    ],
)
def test_listener_prefix(key: str, base: str) -> None:
    """KIP-103, KIP-86: a key for one listener, or for one of its mechanisms."""
    assert without_listener(key) == base
    assert row_of(key) is row_of(base)


def test_dynamic_rows() -> None:
    """Earlier keys cannot be dynamic, and some keys can only be dynamic."""
    assert dynamic_row_of("port") is None
    assert dynamic_row_of("leader.replication.throttled.rate") is not None
    assert row_of("leader.replication.throttled.rate") is None
