"""Checks of the configurations of groups and client metrics subscriptions, as in Kafka 4.3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from coordinator.group.consumer.expressions import BadExpression, Pattern, compile_bounded

from .errors import ConfigError, Problem, UnknownKeyError, rule
from .keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS
from .values import ConfigValue, trim

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS = 100, 3_600_000

CLIENT_ATTRIBUTES = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""The attributes by which a client metrics subscription may match clients (KIP-714)."""

_TAGS = "streams.rack.aware.assignment.tags"
_MATCH = re.compile(r"([^=]+)=([^=]+)")


def _limits(key: str) -> tuple[str | None, str | None]:
    """Return the keys group.consumer.min.x and max.x for consumer.x, or None where they do not exist."""
    kind, _, name = key.partition(".")
    minimum, maximum = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
    if name in ("num.standby.replicas", "num.warmup.replicas"):
        maximum = f"group.streams.max.{name.removeprefix('num.')}"
    return minimum if minimum in BROKER_KEYS else None, maximum if maximum in BROKER_KEYS else None


GROUP_LIMITS = {key: _limits(key) for key in GROUP_KEYS}
"""The broker's keys for the lowest and the highest value of a group's key; None: no limit."""


CHECKED_IN_ORDER = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.num.warmup.replicas",
    "streams.assignment.interval.ms",
    "streams.task.offset.interval.ms",
)
"""The keys with limits, in Kafka's order of checks: the first one that is exceeded is reported."""


_QUEUE = "errors.deadletterqueue.topic.name"


def group_number(config: BrokerConfig, own: Mapping[str, str], key: str) -> int:
    """Return the value for a group: its own, else the broker's.

    A group's own value may be outside of the broker's current limits. Then the limit counts (KIP-1240).
    """
    if key not in own:
        return config.get_int(f"group.{key}")
    value = int(own[key])
    minimum, maximum = GROUP_LIMITS[key]
    if minimum is not None:
        value = max(value, config.get_int(minimum))
    return value if maximum is None else min(value, config.get_int(maximum))


def group_list(config: BrokerConfig, own: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the list for a group: its own, else the broker's."""
    if key not in own:
        return tuple(config.get_list(f"group.{key}"))
    value = GROUP_KEYS[key].read(own[key])
    assert isinstance(value, tuple)
    return value


def capped_group_numbers(config: BrokerConfig, group_id: str, own: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each of a group's values that is outside of the broker's limits."""
    for key, limits in GROUP_LIMITS.items():
        if key in own and limits != (None, None) and (value := group_number(config, own, key)) != int(own[key]):
            yield f"group {group_id}: {key} of {own[key]} is outside of the broker's limits: using {value}"


def validate_group_config(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise ConfigError unless the values are valid for a group: within limits, heartbeats shorter than sessions."""
    for key in overrides:
        if key not in GROUP_KEYS:
            sentence = f"Unknown group config name: {key}"
            raise UnknownKeyError(Problem(key, None, "unknown group key", sentence=sentence))
    values: dict[str, ConfigValue] = {
        key: config.get(row.synonyms[0][0]) if row.synonyms else row.default for key, row in GROUP_KEYS.items()
    }
    for key, text in overrides.items():
        value = GROUP_KEYS[key].read(text)
        if isinstance(value, Problem):
            raise ConfigError(value)
        values[key] = value
    for key in CHECKED_IN_ORDER:
        if key in overrides:
            _check_limits(config, key, values[key])
    if "streams.assignor.name" in overrides:
        _check_assignor(config, overrides["streams.assignor.name"])
    if _TAGS in overrides:
        _check_tags(overrides[_TAGS])
    for kind in ("consumer", "share", "streams"):
        beat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        beat_ms, session_ms = values[beat], values[session]
        assert isinstance(beat_ms, int)
        assert isinstance(session_ms, int)
        if beat_ms >= session_ms and (beat in overrides or session in overrides):
            raise ConfigError(rule(f"{session} must be greater than {beat}", session))
    if str(values[_QUEUE]).startswith("__"):
        raise ConfigError(rule(f"{_QUEUE}: DLQ topic name must not start with '__'", _QUEUE))


def _check_limits(config: BrokerConfig, key: str, value: ConfigValue) -> None:
    if not isinstance(value, int):
        return
    minimum, maximum = (None if limit is None else config.get_int(limit) for limit in GROUP_LIMITS[key])
    if (minimum is None or value >= minimum) and (maximum is None or value <= maximum):
        return
    if minimum is None:
        allowed = f"less than or equal to {maximum}"
    elif maximum is None:
        allowed = f"greater than or equal to {minimum}"
    else:
        allowed = f"in the range {minimum} to {maximum} inclusive."
    raise ConfigError(rule(f"{key} must be {allowed}", key))


def _check_assignor(config: BrokerConfig, name: str) -> None:
    assignors = streams_assignors(config)
    if name not in assignors:
        key = "streams.assignor.name"
        sentence = (
            f"{key} '{name}' is not a registered task assignor. Registered assignors are: [{', '.join(assignors)}]."
        )
        raise ConfigError(rule(sentence, key))


def _check_tags(text: str) -> None:
    tags = [trim(tag) for tag in text.split(",")]
    if len(set(tags)) < len(tags):
        raise ConfigError(rule(f"{_TAGS} must not contain duplicate tag keys.", _TAGS))


def streams_assignors(config: BrokerConfig) -> tuple[str, ...]:
    """Return the names of the assignors that streams groups may use, without duplicates. The first is the default."""
    given = config.get_list("group.streams.assignors")
    return tuple(dict.fromkeys("sticky" if "." in name else name for name in given))


class SubscriptionError(ConfigError):
    """An invalid request about a client metrics subscription, as opposed to an invalid configuration."""


def validate_client_metrics_config(overrides: Mapping[str, str]) -> None:
    """Raise ConfigError unless the values are valid for a subscription; SubscriptionError for an invalid request."""
    for key, text in overrides.items():
        row = CLIENT_METRICS_KEYS.get(key)
        if row is None:
            raise SubscriptionError(rule(f"Unknown client metrics configuration: {key}", key))
        value = row.read(text)
        if isinstance(value, Problem):
            raise ConfigError(value)
        if key == "interval.ms":
            assert isinstance(value, int)
            if not SHORTEST_INTERVAL_MS <= value <= LONGEST_INTERVAL_MS:
                limits = f"between {SHORTEST_INTERVAL_MS} and {LONGEST_INTERVAL_MS} (1 hour)"
                raise SubscriptionError(rule(f"Invalid value {value} for interval.ms, interval must be {limits}", key))
        elif key == "match":
            assert isinstance(value, tuple)
            for pattern in value:
                if client_pattern(pattern) is None:
                    raise ConfigError(rule(f"Illegal client matching pattern: {pattern}", "match"))


class ClientPattern(NamedTuple):
    """An attribute and the expression that it has to match."""

    attribute: str
    expression: Pattern


@lru_cache(maxsize=256)
def client_pattern(text: str) -> ClientPattern | None:
    """Parse `attribute=expression`; return None if it is invalid.

    Expressions are RE2's, with the size limit of consumer groups' expressions: clients choose their names, and the loop
    waits for the match. Java's expressions, with lookahead and backreferences, may take for ever.
    """
    match = _MATCH.fullmatch(text)
    if match is None or trim(match[1]) not in CLIENT_ATTRIBUTES:
        return None
    try:
        return ClientPattern(trim(match[1]), compile_bounded(trim(match[2])))
    except BadExpression:
        return None
