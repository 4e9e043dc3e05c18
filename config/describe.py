"""Configurations as in DescribeConfigs: each value in force with its source (KIP-133, 226, 569).

Kafka lists them in the order of a Java hash table, and some of its tools print that order. `in_kafka_order` computes
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import TYPE_CHECKING

import msgspec

from .errors import Problem
from .key import ConfigKey, KeyTable, UpdateMode
from .keys import BROKER_KEYS, CLIENT_METRICS_KEYS, DYNAMIC_ONLY_KEYS, GROUP_KEYS, TOPIC_KEYS
from .topics import known_keys, topic_values
from .unknown import dynamic_row_of, without_listener
from .values import ConfigType, to_text

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

UNKNOWN_TYPE = 0


class ConfigSource(IntEnum):
    """The source of a value. The numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(msgspec.Struct, frozen=True):
    """A source of a value, highest precedence first. A secret's value is None."""

    name: str
    value: str | None
    source: ConfigSource


class Entry(msgspec.Struct, frozen=True):
    """An entry of the response. `config_type` is a ConfigType or UNKNOWN_TYPE."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: int
    synonyms: tuple[Synonym, ...] = ()
    read_only: bool = False
    sensitive: bool = False
    documentation: str | None = None


def broker_entries(config: BrokerConfig) -> list[Entry]:
    """Return all of this broker's values: every key that is not internal, and all other keys that were set."""
    originals = config.originals()
    names = [row.name for row in BROKER_KEYS.values() if not row.internal and not row.removed]
    names += [
        name for name in originals if name not in BROKER_KEYS or BROKER_KEYS[name].internal or BROKER_KEYS[name].removed
    ]
    return [_broker_entry(config, name, originals, synonyms_of(config, name)) for name in in_kafka_order(names)]


def cluster_default_entries(config: BrokerConfig) -> list[Entry]:
    """Return the dynamic defaults of all brokers, and nothing else."""
    texts = dict(config.cluster_default)
    return [
        _broker_entry(
            config,
            name,
            texts,
            [each for each in synonyms_of(config, name) if each.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG],
        )
        for name in in_kafka_order(texts)
    ]


def _broker_entry(config: BrokerConfig, name: str, texts: Mapping[str, str], synonyms: list[Synonym]) -> Entry:
    row = dynamic_row_of(name)
    sensitive = _is_sensitive(row)
    if sensitive:
        value = None
    elif synonyms and synonyms[0].source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG:
        value = synonyms[0].value
    elif name in BROKER_KEYS:
        value = to_text(config.get(name))
    else:
        value = texts[name]
    exact = BROKER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)
    return Entry(
        name,
        value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        row.type if row is not None else UNKNOWN_TYPE,
        tuple(synonyms),
        read_only=exact is None or exact.update_mode is UpdateMode.READ_ONLY,
        sensitive=sensitive,
        documentation=exact.doc if exact is not None else None,
    )


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Entry]:
    """Return all of a topic's values. Unknown overrides are last, with their values hidden."""
    keys, values = known_keys(config.values), topic_values(config.values, overrides)
    entries = []
    for name in in_kafka_order(
        [
            *(row.name for row in TOPIC_KEYS.values() if not row.internal or row.name in overrides),
            *(name for name in overrides if name not in TOPIC_KEYS),
        ]
    ):
        row = keys.get(name)
        value = to_text(values[name]) if row is not None else None
        synonyms = synonyms_of(config, row.synonyms[0][0]) if row is not None and row.synonyms else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        entries.append(_resource_entry(name, row, value, synonyms))
    return entries


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Entry]:
    """Return all values of a group (KIP-1043)."""
    entries = []
    for name, value in _values_of_resource(config, GROUP_KEYS, overrides):
        row = GROUP_KEYS[name]
        if row.synonyms:
            synonyms = synonyms_of(config, row.synonyms[0][0])
        else:
            synonyms = [Synonym(name, row.default_text, ConfigSource.DEFAULT_CONFIG)]
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, ConfigSource.DYNAMIC_GROUP_CONFIG))
        entries.append(_resource_entry(name, row, value, synonyms))
    return entries


def client_metrics_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Entry]:
    """Return all values of a client metrics subscription (KIP-714)."""
    entries = []
    for name, value in _values_of_resource(config, CLIENT_METRICS_KEYS, overrides):
        synonyms = [Synonym(name, value, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)] if name in overrides else []
        entries.append(_resource_entry(name, CLIENT_METRICS_KEYS[name], value, synonyms))
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[Entry]:
    """Return the levels of loggers by name (KIP-412)."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [Entry(name, level, source, UNKNOWN_TYPE, documentation="") for name, level in levels.items()]


def _values_of_resource(
    config: BrokerConfig, keys: KeyTable, overrides: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    for name in in_kafka_order(keys):
        row = keys[name]
        own = row.read(overrides[name]) if name in overrides else None
        if own is None or isinstance(own, Problem):
            own = config.get(row.synonyms[0][0]) if row.synonyms else row.default
        yield name, to_text(own)


def _resource_entry(name: str, row: ConfigKey | None, value: str | None, synonyms: list[Synonym]) -> Entry:
    return Entry(
        name,
        value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        row.type if row is not None else UNKNOWN_TYPE,
        tuple(synonyms),
        sensitive=_is_sensitive(row),
        documentation=row.doc if row is not None else None,
    )


def synonyms_of(config: BrokerConfig, name: str) -> list[Synonym]:
    """Return every source that gives a value to a broker key, from the first with the key's own name on.

    Sources are visited in order of precedence. In each, the keys of the same meaning are visited in order: milliseconds
    before minutes before hours, a listener's own key before the general one.
    """
    names = _family(name)
    sensitive = _is_sensitive(dynamic_row_of(name))
    layers: list[tuple[ConfigSource, Mapping[str, str]]] = [
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.per_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.cluster_default),
        (ConfigSource.STATIC_BROKER_CONFIG, {key: config.static[key].text for key in names if key in config.static}),
        (ConfigSource.DEFAULT_CONFIG, {key: text for key in names if (text := _default_text(key)) is not None}),
    ]
    found = [
        Synonym(key, None if sensitive else layer[key], source)
        for source, layer in layers
        for key in names
        if key in layer
    ]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _family(name: str) -> tuple[str, ...]:
    row = BROKER_KEYS.get(name)
    if row is not None and row.family:
        return row.family
    base = without_listener(name)
    return (name,) if base == name else (name, base)


def _default_text(key: str) -> str | None:
    row = BROKER_KEYS.get(key)
    return row.default_text if row is not None and not row.removed else None


def _is_sensitive(row: ConfigKey | None) -> bool:
    """Return whether the value is hidden: secrets, and unknown keys, which may be secrets."""
    return row is None or row.type is ConfigType.PASSWORD


def in_kafka_order(names: Iterable[str]) -> list[str]:
    """Return the names in the order of a Java hash table of the size for them; equal buckets keep their order."""
    names = list(names)
    size = 16
    while len(names) > size * 3 // 4:
        size *= 2
    return sorted(names, key=lambda name: _java_hash(name) & (size - 1))


def _java_hash(text: str) -> int:
    """Return `String.hashCode` of an ASCII text, mixed as in Java's hash tables."""
    value = 0
    for character in text.encode():
        value = (value * 31 + character) & 0xFFFFFFFF
    return value ^ (value >> 16)
