"""Changes that only a running broker rejects; messages and limits are Kafka 4.3.1's."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.dynamic import check_dynamic

POOLS = {
    "num.io.threads": 8,
    "num.replica.fetchers": 1,
    "num.recovery.threads.per.data.dir": 2,
    "background.threads": 10,
    "num.network.threads": 3,
    "remote.log.manager.copier.thread.pool.size": 10,
}


def refused(texts: dict[str, str], **settings: str) -> str:
    with pytest.raises(ConfigError) as error:
        check_dynamic(load(overrides=settings), texts, per_broker=True)
    return str(error.value)


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(("key", "current"), POOLS.items())
def test_from_half_to_twice(key: str, current: int, per_broker: bool) -> None:
    """Both limits are allowed, per broker and for all."""
    for count in (max(current // 2, 1), current, current * 2):
        check_dynamic(load(), {key: str(count)}, per_broker=per_broker)


@pytest.mark.parametrize(("key", "current"), POOLS.items())
def test_beyond(key: str, current: int) -> None:
    """Kafka's exception, and the sentence around it."""
    around = (
        "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed"
        " for {}={}, value should {} the current value {} for configuration Invalid dynamic configuration"
    )
    most = current * 2 + 1
    assert refused({key: str(most)}) == around.format(key, most, "not be greater than double", current)
    least = current // 2 - 1
    if least > 0:
        assert refused({key: str(least)}) == around.format(key, least, "be at least half", current)


def test_a_listener_has_its_own_limit() -> None:
    """Measured from the listener's own value, if it has one."""
    config = load(overrides={"listener.name.plaintext.num.network.threads": "10"})
    check_dynamic(config, {"listener.name.plaintext.num.network.threads": "20"}, per_broker=True)
    with pytest.raises(ConfigError, match=r"num\.network\.threads=21, value should not be greater than double the"):
        check_dynamic(config, {"listener.name.plaintext.num.network.threads": "21"}, per_broker=True)


def test_limits_follow_earlier_changes() -> None:
    """So several changes may exceed the limits of one."""
    config = load()
    config.apply_dynamic({"num.io.threads": "16"}, {})
    check_dynamic(config, {"num.io.threads": "32"}, per_broker=False)


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        ("0", "Log cleaner threads should be at least 1"),
        ("1", "Log cleaner threads cannot be reduced to less than half the current value 4"),
        ("9", "Log cleaner threads cannot be increased to more than double the current value 4"),
    ],
)
def test_cleaners(count: str, sentence: str) -> None:
    """They have messages of their own; for 0 Kafka says "/ by zero"."""
    errors = refused({"log.cleaner.threads": count}, **{"log.cleaner.threads": "4"})
    assert f"ConfigException: {sentence} for" in errors


@pytest.mark.parametrize("key", ["max.connections", "max.connection.creation.rate"])
def test_connection_limits_must_not_be_zero(key: str) -> None:
    """Neither the broker's nor a listener's own; in the file 0 is allowed."""
    for name in (key, f"listener.name.plaintext.{key}"):
        assert f"ConfigException: Invalid {key} 0 for" in refused({name: "0"})
    assert load(overrides={key: "0"}).get_int(key) == 0


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            {"log.local.retention.ms": "99999999999"},
            "log.local.retention.ms: Value must not be more than log.retention.ms property value: 604800000",
        ),
        (
            {"log.local.retention.ms": "-1"},
            "log.local.retention.ms: Value must not be -1 as log.retention.ms value is set as 604800000.",
        ),
        (
            {"log.retention.bytes": "10", "log.local.retention.bytes": "11"},
            "log.local.retention.bytes: Value must not be more than log.retention.bytes property value: 10",
        ),
        (
            {"log.retention.ms": "10", "log.remote.copy.lag.ms": "11"},
            "log.remote.copy.lag.ms: Value must not exceed log.local.retention.ms (effective value: 10)",
        ),
        (
            {"log.local.retention.bytes": "10", "log.remote.copy.lag.bytes": "11"},
            "log.remote.copy.lag.bytes: Value must not exceed log.local.retention.bytes (effective value: 10)",
        ),
    ],
)
def test_local_retention_is_within_total_retention(texts: dict[str, str], sentence: str) -> None:
    """-2 means all; if all is kept, any local limit is allowed. Copies may lag as far as local retention."""
    assert sentence in refused(texts)
    for text in ("-2", "-1", "11"):
        check_dynamic(load(), {"log.retention.bytes": "-1", "log.local.retention.bytes": text}, per_broker=True)


def test_requirements_have_scalas_prefix() -> None:
    """As in Scala."""
    assert refused({"log.retention.ms": "0"}).startswith("requirement failed: log.retention.ms must be")
    assert refused({"cordoned.log.dirs": "*,/tmp"}) == (
        "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
    )
