"""Validators of single keys with rules of their own."""

from __future__ import annotations

import re

from ..errors import Problem
from ..validators import OneOf, Rule
from ..values import ConfigValue

_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_VOTER = re.compile(r"-?[0-9]+@(\[[^]@]+\]|[^@:]+):[0-9]+")
_HOST_AND_PORT = re.compile(r"(\[[^]]+\]|[^:]+):[0-9]+")
_DURATION = re.compile(r"P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]{0,9})?S)?)?", re.IGNORECASE)


def _non_null(name: str, value: ConfigValue) -> str | None:
    return None


def _non_empty(name: str, value: ConfigValue) -> str | None:
    return None if value else "String must be non-empty"


def _throttled_replicas(name: str, value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if "".join(value).strip() == "*" or all(_THROTTLED.fullmatch(entry.strip()) for entry in value):
        return None
    return f"{name} must be the literal '*' or a list of replicas in the following format: {THROTTLED_REPLICAS}"


def _voters(name: str, value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if all(_VOTER.fullmatch(entry) for entry in value):
        return None
    return "Each entry should be in the form `{id}@{host}:{port}`."


def _bootstrap_servers(name: str, value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    return (
        None
        if all(_HOST_AND_PORT.fullmatch(entry) for entry in value)
        else "Each entry should be in the form `{host}:{port}`."
    )


def _offset_reset(name: str, value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    how, _, duration = value.partition(":")
    if value in ("latest", "earliest") or (how == "by_duration" and _DURATION.fullmatch(duration)):
        return None
    return (
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _metadata_retention(name: str, value: ConfigValue) -> str | None:
    assert isinstance(value, int)
    return None if value == -1 or value > 0 else "Value must be -1 or at least 1"


NON_NULL = Rule("non-null string", _non_null)
NON_EMPTY = Rule("non-empty string", _non_empty)
METADATA_RETENTION = Rule("-1 or [1,...]", _metadata_retention)
THROTTLED_REPLICAS = Rule("[partitionId]:[brokerId],[partitionId]:[brokerId],...", _throttled_replicas)
VOTERS = Rule("non-empty list", _voters)
BOOTSTRAP_SERVERS = Rule("non-empty list", _bootstrap_servers)
OFFSET_RESET = Rule("[latest, earliest, by_duration:PnDTnHnMn.nS]", _offset_reset)


class Release(OneOf):
    """A release of Kafka: with a protocol version (2.8-IV1) or without (2.8, 2.8.1)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> Problem | None:
        assert isinstance(value, str)
        release = ".".join(value.split(".")[: 3 if value.startswith("0.") else 2])
        if any(word == release or word.startswith(f"{release}-") for word in self.words):
            return None
        return super().check(name, value)


# fmt: off
RELEASES = Release(
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2",
    "0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1",
    "2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1",
    "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1", "3.0-IV0", "3.0-IV1",
    "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
    "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1",
)
"""The values of inter.broker.protocol.version and log.message.format.version in Kafka 3.9."""
# fmt: on
