"""The configuration of topics: checks, the configuration of their logs, and topics declared in the broker's file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS, NEVER_TIERED, collision_problem, name_problem
from storage.log_config import LogConfig

from .combinations import retention_ms, roll_jitter_ms, roll_ms
from .errors import ConfigError, Problem, UnknownKeyError, rule
from .key import ConfigKey, KeyTable
from .keys import LEGACY_TOPIC_KEYS, TOPIC_KEYS
from .tiered_topics import problems as tiered_problems
from .values import ConfigValue

Values: TypeAlias = Mapping[str, ConfigValue]
"""Typed values by key. The values of a broker are those of all its keys (`BrokerConfig.values`)."""

UNLIMITED_SEGMENT_BYTES = "internal.segment.bytes"
"""segment.bytes without its lower limit; it wins over segment.bytes."""
SYSTEM = "remote.log.storage.system.enable"
_ALL_KEYS = {**TOPIC_KEYS, **LEGACY_TOPIC_KEYS}
_FIELD_KEYS = {field.name: key for field in fields(LogConfig) if (key := field.name.replace("_", ".")) in _ALL_KEYS}
"""The fields of LogConfig that are topic keys with underscores, and their keys."""
#: The broker creates these topics itself.
_RESERVED = (*INTERNAL_TOPICS, CLUSTER_METADATA)
_FORMER_DEFAULTS = {
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
}
"""Topic keys of earlier versions, and the broker keys of their defaults."""
_FORMER_TIME_LIMIT = "message.timestamp.difference.max.ms"
_TIME_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


class DeclaredTopic(msgspec.Struct, frozen=True):
    """A topic of `pybroker.topics`, with its configuration as texts."""

    name: str
    partitions: int
    configs: Mapping[str, str]


def known_keys(broker: Values) -> KeyTable:
    """Return the keys that a topic may have; with `pybroker.legacy.versions` also those of earlier versions."""
    return _ALL_KEYS if broker["pybroker.legacy.versions"] else TOPIC_KEYS


def topic_values(broker: Values, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the typed values of all topic keys: the topic's own, else the broker's, else the default."""
    return {**broker_defaults(broker), **readable(known_keys(broker), overrides)}


def readable(keys: KeyTable, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the typed values of overrides, without unknown keys and invalid texts, which old directories may have."""
    values = {}
    for key, text in overrides.items():
        row = keys.get(key)
        if row is not None and not isinstance(value := row.read(text), Problem):
            values[key] = value
    if _FORMER_TIME_LIMIT in values:
        for key in _TIME_LIMITS:
            values.setdefault(key, values[_FORMER_TIME_LIMIT])
    return values


def broker_defaults(broker: Values) -> dict[str, ConfigValue]:
    """Return the values of a topic without its own configuration."""
    values = {key: _broker_value(broker, row) for key, row in TOPIC_KEYS.items()}
    values |= {key: broker[broker_key] for key, broker_key in _FORMER_DEFAULTS.items()}
    values["retention.ms"] = retention_ms(broker)
    values["segment.ms"] = roll_ms(broker)
    values["segment.jitter.ms"] = roll_jitter_ms(broker)
    return values


def _broker_value(broker: Values, row: ConfigKey) -> ConfigValue:
    for name, _ in row.synonyms:
        value = broker[name]
        if value is not None:
            return value
    return row.default


def default_log_config(broker: Values) -> LogConfig:
    """Return the configuration of logs whose topic has none of its own."""
    validation = broker["pybroker.record.validation"] or "header"
    assert isinstance(validation, str)
    return LogConfig(
        **_log_fields(broker_defaults(broker)),
        record_validation=validation,
        remote_storage_system=bool(broker[SYSTEM]),
    )


def override_log_config(
    defaults: LogConfig, keys: KeyTable, overrides: Mapping[str, str], topic: str = ""
) -> LogConfig:
    """Return the configuration of the logs of `topic` with these overrides, of which only `keys` count."""
    values = readable(keys, overrides)
    if topic in NEVER_TIERED:
        values.pop("remote.storage.enable", None)
    return replace(defaults, **_log_fields(values)) if values else defaults


def _log_fields(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    """Return the fields of LogConfig for the values that it has."""
    chosen: dict[str, Any] = {field: values[key] for field, key in _FIELD_KEYS.items() if key in values}
    if "cleanup_policy" in chosen:
        chosen["cleanup_policy"] = frozenset(chosen["cleanup_policy"])
    if values.get(UNLIMITED_SEGMENT_BYTES) is not None:
        chosen["segment_bytes"] = values[UNLIMITED_SEGMENT_BYTES]
    return chosen


def validate_topic_config(
    broker: Values,
    overrides: Mapping[str, str | None],
    former: Mapping[str, str],
    removed: Collection[str] = (),
) -> None:
    """Raise ConfigError as Kafka 4.4's LogConfig does, in its order: nulls, unknown keys, values, combinations.

    `former` is the topic's configuration before the change, in which `overrides` are set and `removed` keys removed.
    """
    nulls = sorted(key for key, text in overrides.items() if text is None)
    if nulls:
        raise ConfigError(rule(f"Null value not supported for topic configs: {','.join(nulls)}", nulls[0]))
    texts = {key: text for key, text in overrides.items() if text is not None}
    keys = known_keys(broker)
    for key in texts:
        if key not in keys:
            reason = "a topic key of earlier versions" if key in LEGACY_TOPIC_KEYS else "unknown topic key"
            sentence = f"Unknown topic config name: {key}"
            raise UnknownKeyError(Problem(key, None, reason, "keys of topics", sentence=sentence))
    values = topic_values(
        broker, {key: text for key, text in former.items() if key not in texts and key not in removed}
    )
    for key, text in texts.items():
        value = keys[key].read(text)
        if isinstance(value, Problem):
            raise ConfigError(value)
        values[key] = value
    _check_lags(values)
    for problem in tiered_problems(values, former, has_system=bool(broker[SYSTEM])):
        raise ConfigError(problem)


def _check_lags(values: Mapping[str, ConfigValue]) -> None:
    minimum, maximum = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(minimum, int)
    assert isinstance(maximum, int)
    if minimum > maximum:
        sentence = (
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > max.compaction.lag.ms ({maximum})"
        )
        raise ConfigError(rule(sentence, "min.compaction.lag.ms"))


def declared_topics(broker: Values) -> tuple[DeclaredTopic, ...]:
    """Return the topics of `pybroker.topics`: `name[:partitions[:key=value]...]`, separated by semicolons.

    A piece without `=` belongs to the value before it, because values may have colons. Without a number of partitions
    the topic has num.partitions. Raises ConfigError for a topic that could not be created.
    """
    declared: dict[str, DeclaredTopic] = {}
    for entry in filter(None, map(str.strip, str(broker["pybroker.topics"] or "").split(";"))):
        topic = _declared_topic(broker, entry)
        if topic.name in declared:
            raise ConfigError(_undeclarable(entry, "the topic is duplicate"))
        if (reason := collision_problem(topic.name, (*declared, *_RESERVED))) is not None:
            raise ConfigError(_undeclarable(entry, reason))
        declared[topic.name] = topic
    return tuple(declared.values())


def _declared_topic(broker: Values, entry: str) -> DeclaredTopic:
    name, *rest = (piece.strip() for piece in entry.split(":"))
    reason = name_problem(name)
    if reason is None and name in _RESERVED:
        reason = "an internal topic cannot be declared"
    if reason is not None:
        raise ConfigError(_undeclarable(entry, reason))
    partitions = broker["num.partitions"]
    assert isinstance(partitions, int)
    if rest and "=" not in rest[0]:
        count = rest.pop(0)
        if not count.isdecimal() or int(count) < 1:
            raise ConfigError(_undeclarable(entry, f"{count or 'nothing'} is not a number of partitions"))
        partitions = int(count)
    configs: dict[str, str] = {}
    key = ""
    for piece in rest:
        if "=" in piece:
            key, _, configs[key] = (part.strip() for part in piece.partition("="))
        elif key:
            configs[key] += f":{piece}"
        else:
            raise ConfigError(_undeclarable(entry, f"{piece or 'nothing'} is not key=value"))
    try:
        validate_topic_config(broker, configs, {})
    except ConfigError as error:
        raise ConfigError(_undeclarable(entry, str(error))) from None
    return DeclaredTopic(name, partitions, MappingProxyType(configs))


def _undeclarable(entry: str, reason: str) -> Problem:
    return Problem("pybroker.topics", entry, reason, "name:partitions:key=value, separated by semicolons")
