"""Rules between keys, each case tried on Kafka 4.3.1."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.combinations import ORDERED


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        (
            {"metadata.log.segment.ms": "0"},
            "Invalid value 0 for configuration metadata.log.segment.ms: Value must be at least 1",
        ),
        ({"metadata.log.segment.ms": "-5"}, None),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            {"log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "2"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"replica.fetch.wait.max.ms": "40000"},
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
            "to prevent unnecessary socket timeouts",
        ),
        (
            {"queued.max.request.bytes": "1000"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, None),
        ({"max.connections.per.ip.overrides": "127.0.0.1:x"}, None),
        ({"client.quota.callback.class": "a.b.Quotas"}, None),
        ({"connections.max.idle.ms": "100"}, None),
        ({"offsets.topic.compression.codec": "7"}, None),
        ({"share.coordinator.state.topic.compression.codec": "9"}, None),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol is not supported."),
        ({"group.consumer.assignors": "nope"}, None),
        ({"group.share.assignors": "nope"}, None),
        (
            {"group.share.assignors": "simple,org.apache.kafka.coordinator.group.assignor.SimpleAssignor"},
            "group.share.assignors must contain exactly one assignor, but found 2",
        ),
        (
            {"log.dirs": "/a,/b", "cordoned.log.dirs": "/c"},
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /c",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "20000"},
            "group.consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"group.share.record.lock.duration.ms": "100000"},
            "group.share.max.record.lock.duration.ms must be greater than or equal to "
            "group.share.record.lock.duration.ms",
        ),
    ],
)
def test_rejected_combinations(settings: dict[str, str], sentence: str | None) -> None:
    """The message is Kafka's if Kafka has one."""
    with pytest.raises(ConfigError) as refused:
        load(overrides=settings)

    assert sentence is None or str(refused.value) == sentence


@pytest.mark.parametrize(
    "settings",
    [
        {"log.retention.ms": "-2"},
        {"log.retention.minutes": "-1"},
        {"queued.max.request.bytes": "-2"},
        {"queued.max.request.bytes": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:100"},
        {"connections.max.idle.ms": "-1"},
        {"log.dirs": "/a,/b", "cordoned.log.dirs": "*"},
        {"group.coordinator.rebalance.protocols": "classic,share"},
        {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
        {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1000"},
        {"default.replication.factor": "0"},
    ],
)
def test_accepted_combinations(settings: dict[str, str]) -> None:
    """Including unusual values that Kafka accepts."""
    load(overrides=settings)


@pytest.mark.parametrize(("key", "comparison", "other"), ORDERED, ids=lambda part: str(part))
def test_every_pair_is_checked(key: str, comparison: str, other: str) -> None:
    """The first key is set to the wrong side of the second; the other rules hold."""
    config = load()
    wrong = (
        config.get_int(other) + {"greater than or equal to": -1, "less than or equal to": 1, "less than": 0}[comparison]
    )

    with pytest.raises(ConfigError):
        load(overrides={key: str(wrong)})
