"""The configurations of groups and subscriptions; cases beyond the handlers' tests."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.keys import BROKER_KEYS, GROUP_KEYS
from config.resources import (
    CHECKED_IN_ORDER,
    GROUP_LIMITS,
    capped_group_numbers,
    group_number,
    validate_client_metrics_config,
    validate_group_config,
)


@pytest.mark.parametrize("bound", ["min", "max"])
@pytest.mark.parametrize("key", GROUP_KEYS)
def test_every_group_key_is_kept_within_the_brokers_limits(key: str, bound: str) -> None:
    """At the limit a value is accepted; beyond it the error names the limit."""
    kind, _, name = key.partition(".")
    limit = f"group.{kind}.{bound}.{name}".replace("max.num.standby", "max.standby")
    if limit not in BROKER_KEYS:
        return
    config = load()
    value = config.get_int(limit) + (1 if bound == "max" else -1)

    with pytest.raises(ConfigError):
        validate_group_config(config, {key: str(value)})
    validate_group_config(config, {key: str(config.get_int(limit))})


@pytest.mark.parametrize(
    ("own", "effective"), [({}, 6), ({"share.delivery.count.limit": "9"}, 8), ({"share.delivery.count.limit": "2"}, 3)]
)
def test_values_outside_of_new_limits_are_capped(own: dict[str, str], effective: int) -> None:
    """As in Kafka 4.3 (KIP-1240), with a line in the log."""
    config = load(
        overrides={
            "group.share.delivery.count.limit": "6",
            "group.share.min.delivery.count.limit": "3",
            "group.share.max.delivery.count.limit": "8",
        }
    )

    assert group_number(config, own, "share.delivery.count.limit") == effective
    assert len(list(capped_group_numbers(config, "g", own))) == len(own)


def test_values_within_the_limits_are_not_reported() -> None:
    """Values without limits, or that are not numbers, are ignored."""
    own = {"share.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}

    assert list(capped_group_numbers(load(), "g", own)) == []


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_heartbeats_fit_into_sessions(kind: str) -> None:
    """The broker's session timeout applies to groups without their own. The message is Apache Kafka's."""
    config = load(overrides={f"group.{kind}.max.heartbeat.interval.ms": "50000"})

    with pytest.raises(ConfigError) as refused:
        validate_group_config(config, {f"{kind}.heartbeat.interval.ms": "45000"})

    assert str(refused.value) == f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"


def test_first_exceeded_limit_is_kafkas_first_check() -> None:
    """Not the first one in the request."""
    own = {"streams.session.timeout.ms": "1", "consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "1"}

    with pytest.raises(ConfigError) as refused:
        validate_group_config(load(), own)

    assert str(refused.value) == ("consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.")


def test_every_limited_key_is_in_the_order_of_checks() -> None:
    """A key without a place would have no limit."""
    limited = {key for key, limits in GROUP_LIMITS.items() if limits != (None, None)}

    assert limited == set(CHECKED_IN_ORDER)


@pytest.mark.parametrize(
    "pattern",
    [
        "foo=a",
        "foo",
        "client_id",
        "client_id=a=b",
        "client_id=[",
        "=a",
        "client_id=",
        "client_id=(?=a)",
        f"client_id={'(' * 5000}",
        pytest.param(f"client_id={'(?:[ab]?){1000}' * 20}", id="takes long to match"),
        pytest.param(f"client_id={'a' * 40_000}", id="takes long to read"),
    ],
)
def test_invalid_patterns_are_rejected(pattern: str) -> None:
    """KIP-714: attribute=regular expression."""
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        validate_client_metrics_config({"match": pattern})


@pytest.mark.parametrize("value", ["", "client_id=a", " client_id = a.* ,client_source_port=[0-9]+"])
def test_patterns(value: str) -> None:
    """Blanks around it are ignored; an empty list matches all clients."""
    validate_client_metrics_config({"match": value})


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("streams.session.timeout.ms", "60001", "must be in the range 45000 to 60000 inclusive."),
        ("streams.num.standby.replicas", "3", "must be less than or equal to 2"),
        ("streams.num.warmup.replicas", "21", "must be less than or equal to 20"),
        ("streams.task.offset.interval.ms", "14999", "must be greater than or equal to 15000"),
        ("streams.rack.aware.assignment.tags", "a,b, a", "must not contain duplicate tag keys."),
        *(
            (
                "streams.assignor.name",
                name,
                f"'{name}' is not a registered task assignor. Registered assignors are: [sticky].",
            )
            for name in ("nosuch", "", "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor")
        ),
    ],
)
def test_values_that_apache_kafka_refuses(key: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_group_config(load(), {key: value})

    assert str(refused.value) == f"{key} {sentence}"


def test_empty_tags_are_refused() -> None:
    key = "streams.rack.aware.assignment.tags"
    with pytest.raises(ConfigError, match=f"Configuration '{key}' values must not be empty."):
        validate_group_config(load(), {key: "a,,b"})


def test_values_of_streams_groups() -> None:
    """Names of assignors and empty lists of tags; an assignor given by class has its name."""
    java = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
    for config in (load(), load(overrides={"group.streams.assignors": java})):
        values = {"streams.assignor.name": "sticky", "streams.rack.aware.assignment.tags": ""}
        validate_group_config(config, {**values, "streams.assignor.offload.enable": "false"})


def test_unknown_task_assignors_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="no such assignor"):
        load(overrides={"group.streams.assignors": "sticky,mine"})
