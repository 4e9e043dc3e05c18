"""The configuration of topics, and topics that a file declares."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.key import ConfigKey
from config.keys import TOPIC_KEYS
from config.values import ConfigType
from storage.log_config import LogConfig

NO_EFFECT_ON_LOGS = {
    "errors.deadletterqueue.group.enable",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.delete.on.disable",
}
"""Keys of replication and dead-letter queues, and one that counts when tiered storage is turned off."""

HOLDABLE = [row for row in TOPIC_KEYS.values() if row.name not in NO_EFFECT_ON_LOGS]


def other_value(row: ConfigKey) -> str:
    """Return a valid text that is not the default."""
    if row.type is ConfigType.BOOLEAN:
        return str(not row.default).lower()
    if row.name == "cleanup.policy":
        return "compact"
    if row.type is ConfigType.STRING:
        return {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}[row.name]
    if row.type is ConfigType.DOUBLE:
        return "0.25"
    return "5" if row.name.startswith("compression.") else "5000000"


def test_defaults_are_those_of_the_log() -> None:
    """Without any configuration both tables have the same values."""
    assert load().log_config() == LogConfig()


@pytest.mark.parametrize("row", HOLDABLE, ids=lambda row: row.name)
def test_every_topic_key_reaches_the_log(row: ConfigKey) -> None:
    """S28.1: a topic's value changes the configuration of its logs."""
    config = load()

    assert config.log_config({row.name: other_value(row)}) != config.log_config()


@pytest.mark.parametrize(
    ("name", "unit", "key"),
    [(name, unit, row.name) for row in HOLDABLE for name, unit in row.synonyms],
)
def test_every_broker_default_reaches_the_log(name: str, unit: int, key: str) -> None:
    """S27: a broker's value changes the configuration of logs of topics without their own, converted to its unit."""
    text = other_value(TOPIC_KEYS[key])
    amount = "7" if unit > 1 else text

    assert load(overrides={name: amount}).log_config() == load().log_config({key: str(7 * unit) if unit > 1 else text})


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.minutes": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_milliseconds_win_over_minutes_and_hours(settings: dict[str, str], retention_ms: int) -> None:
    """S27.17-S27.19."""
    assert load(overrides=settings).log_config().retention_ms == retention_ms


def test_roll_and_jitter_milliseconds_win_over_hours() -> None:
    """S27.14, S27.15."""
    config = load(overrides={"log.roll.hours": "1", "log.roll.ms": "5", "log.roll.jitter.hours": "1"}).log_config()

    assert (config.segment_ms, config.segment_jitter_ms) == (5, 3_600_000)


def test_invalid_stored_overrides_are_ignored() -> None:
    """Directories of earlier versions have such keys and values."""
    config = load(overrides={"pybroker.legacy.versions": "false"})

    assert config.log_config({"message.format.version": "0.9.0", "retention.ms": "soon"}) == config.log_config()


def test_earlier_topic_keys_count_with_legacy_versions(caplog: pytest.LogCaptureFixture) -> None:
    """message.format.version and similar keys, of the topic or the broker; one warning per key."""
    config = load(overrides={"log.message.format.version": "0.10.2", "log.message.downconversion.enable": "false"})
    assert (config.log_config().message_magic, config.log_config().message_downconversion_enable) == (1, False)

    topic = {"message.format.version": "0.9.0.1", "message.downconversion.enable": "true"}
    config.validate_topic_config(topic)
    for _ in range(2):
        made = config.log_config(topic)
    assert (made.message_magic, made.message_downconversion_enable) == (0, True)
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"{key} is a topic key of earlier versions, which Apache Kafka 4 ignores" for key in sorted(topic)
    ]


def test_earlier_time_limit_sets_both_current_ones() -> None:
    """message.timestamp.difference.max.ms, unless a current key is set (KIP-937)."""
    topic = {"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"}
    made = load().log_config(topic)

    assert (made.message_timestamp_before_max_ms, made.message_timestamp_after_max_ms) == (5, 7)


@pytest.mark.parametrize(
    ("release", "taken"),
    [
        *((release, True) for release in ("2.8", "2.8.1", "2.8-IV1", "0.10.0", "0.8.2.2")),
        *((release, False) for release in ("0.10", "x", "2.8-IV7", "9.9")),
    ],
)
def test_releases_of_kafka(release: str, taken: bool) -> None:
    """With two or three numbers, or with a protocol version of that release."""
    if taken:
        load().validate_topic_config({"message.format.version": release})
        return
    with pytest.raises(ConfigError):
        load().validate_topic_config({"message.format.version": release})


def test_earlier_topic_keys_are_rejected_as_in_kafka_4() -> None:
    """Without `pybroker.legacy.versions`."""
    with pytest.raises(ConfigError) as refused:
        load(overrides={"pybroker.legacy.versions": "false"}).validate_topic_config({"message.format.version": "0.9.0"})

    assert str(refused.value) == "Unknown topic config name: message.format.version"


def test_record_validation_is_one_for_all_topics() -> None:
    """A key of our own."""
    assert load(overrides={"pybroker.record.validation": "full"}).log_config().record_validation == "full"


@pytest.mark.parametrize(
    ("overrides", "existing", "sentence"),
    [
        (
            {"segment.ms": None, "a": None},
            {},
            "Null value not supported for topic configs: a,segment.ms",
        ),
        ({"no.such": "1"}, {}, "Unknown topic config name: no.such"),
        ({"retention.ms": "x"}, {}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (
            {"min.compaction.lag.ms": "10"},
            {"max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_rejected_values(overrides: dict[str, str | None], existing: dict[str, str], sentence: str) -> None:
    """INVALID_CONFIG with Kafka's message."""
    with pytest.raises(ConfigError) as refused:
        load().validate_topic_config(overrides, existing)

    assert str(refused.value) == sentence


def test_existing_overrides_are_not_checked_again() -> None:
    """An override that was stored earlier is valid."""
    load().validate_topic_config({"retention.ms": "-1", "cleanup.policy": ""}, {"message.format.version": "2.8"})


def test_declared_topics() -> None:
    """A key of our own: name, partitions, and configuration whose values may have colons and commas."""
    config = load(
        overrides={
            "num.partitions": "4",
            "pybroker.topics": "orders:3; audit:1:cleanup.policy=compact,delete:retention.ms=5 ;plain;"
            "slow:2:leader.replication.throttled.replicas=0:1,1:1;only:retention.ms=6",
        }
    )

    assert [(topic.name, topic.partitions, dict(topic.configs)) for topic in config.declared_topics] == [
        ("orders", 3, {}),
        ("audit", 1, {"cleanup.policy": "compact,delete", "retention.ms": "5"}),
        ("plain", 4, {}),
        ("slow", 2, {"leader.replication.throttled.replicas": "0:1,1:1"}),
        ("only", 4, {"retention.ms": "6"}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a:0",
        "a:-1",
        "a:x",
        "a:",
        "a b",
        "..",
        "a;a",
        ":1",
        "a:1:retention.ms=soon",
        "a:1:b=1",
        "a:1:b",
        "a:1:",
        "__consumer_offsets",
        "__cluster_metadata",
        "a.b;a_b",
        "__consumer.offsets",
    ],
)
def test_invalid_declared_topics(text: str) -> None:
    """The start stops, and the error has the entry."""
    with pytest.raises(ConfigError) as refused:
        load(overrides={"pybroker.topics": text})

    problem = str(refused.value.problems[0])
    assert problem.startswith("--override: pybroker.topics=")
    assert "allowed: name:partitions" in problem


def test_tiered_topics_need_the_system() -> None:
    """remote.storage.enable has an effect only with remote.log.storage.system.enable of the broker (KIP-405)."""
    topic = {"remote.storage.enable": "true"}

    assert load(overrides={"remote.log.storage.system.enable": "true"}).log_config(topic).tiered
    assert not load().log_config(topic).tiered
