"""Checks of groups' and client metrics subscriptions' configurations, as Kafka 4.3 makes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .errors import ConfigError, Problem, UnknownKeyError, rule
from .keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from .values import ConfigValue

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
"""What a client metrics subscription may match clients by (KIP-714)."""

_MATCH = re.compile(r"([^=]+)=([^=]+)")


def validate_group_config(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raises ConfigError unless a group may have these values: within limits, heartbeats shorter than sessions."""
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
    for key in overrides:
        _check_limits(config, key, values[key])
    for kind in ("consumer", "share", "streams"):
        beat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        beat_ms, session_ms = values[beat], values[session]
        assert isinstance(beat_ms, int)
        assert isinstance(session_ms, int)
        if beat_ms >= session_ms and (beat in overrides or session in overrides):
            raise ConfigError(rule(f"{beat} must be less than {session}", beat))


def _check_limits(config: BrokerConfig, key: str, value: ConfigValue) -> None:
    """A group's key has limits where the broker has keys for them: group.consumer.min.x and max.x for consumer.x."""
    kind, _, name = key.partition(".")
    least, most = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
    if name == "num.standby.replicas":
        most = "group.streams.max.standby.replicas"
    if not isinstance(value, int):
        return
    if least in config.values and value < config.get_int(least):
        raise ConfigError(rule(f"{key} must be greater than or equal to {least}", key))
    if most in config.values and value > config.get_int(most):
        raise ConfigError(rule(f"{key} must be less than or equal to {most}", key))


class SubscriptionError(ConfigError):
    """What makes a client metrics subscription an invalid request, not an invalid configuration."""


def validate_client_metrics_config(overrides: Mapping[str, str]) -> None:
    """Raises ConfigError unless a subscription may have these values; SubscriptionError if the request is to blame."""
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
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    match = _MATCH.fullmatch(pattern)
    if match is not None and match[1].strip() in CLIENT_ATTRIBUTES:
        try:
            re.compile(match[2].strip())
        except re.error:
            pass
        else:
            return
    raise ConfigError(rule(f"Illegal client matching pattern: {pattern}", "match"))
