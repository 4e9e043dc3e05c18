"""Configurations as DescribeConfigs shows them: every value in force with where it comes from (KIP-133, 226, 569).

Kafka answers in the order of a Java hash table, and some of its tools print that as it comes; `in_kafka_order` is it.
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
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(msgspec.Struct, frozen=True):
    """One of the places that give a value, highest precedence first; a secret's value is None."""

    name: str
    value: str | None
    source: ConfigSource


class Entry(msgspec.Struct, frozen=True):
    """One line of an answer. `config_type` is a ConfigType or UNKNOWN_TYPE."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: int
    synonyms: tuple[Synonym, ...] = ()
    read_only: bool = False
    sensitive: bool = False
    documentation: str | None = None


def broker_entries(config: BrokerConfig) -> list[Entry]:
    """All of this broker's values: every key of the table that is not internal, and whatever else was given."""
    originals = config.originals()
    names = [row.name for row in BROKER_KEYS.values() if not row.internal and not row.removed]
    names += [
        name for name in originals if name not in BROKER_KEYS or BROKER_KEYS[name].internal or BROKER_KEYS[name].removed
    ]
    return [_broker_entry(config, name, originals, synonyms_of(config, name)) for name in in_kafka_order(names)]


def cluster_default_entries(config: BrokerConfig) -> list[Entry]:
    """The dynamic defaults of all brokers, and nothing else."""
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
    """All of a topic's values; overrides that this version does not know come last, with their values hidden."""
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
    """All values of a group (KIP-1043)."""
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
    """All values of a client metrics subscription (KIP-714)."""
    entries = []
    for name, value in _values_of_resource(config, CLIENT_METRICS_KEYS, overrides):
        synonyms = [Synonym(name, value, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)] if name in overrides else []
        entries.append(_resource_entry(name, CLIENT_METRICS_KEYS[name], value, synonyms))
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[Entry]:
    """Levels of loggers by name (KIP-412)."""
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
    """Every place that gives a value to one of the broker's keys, from the first that has the key's own name.

    The places are looked through in order of precedence, and in each of them the keys that say the same (ms before
    minutes before hours, a listener's own before the general one).
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
    """Secrets, and all that nobody knows: it may be one."""
    return row is None or row.type is ConfigType.PASSWORD


def in_kafka_order(names: Iterable[str]) -> list[str]:
    """The order of the keys in a Java hash table of just the size for them; equal places keep their order."""
    names = list(names)
    size = 16
    while len(names) > size * 3 // 4:
        size *= 2
    return sorted(names, key=lambda name: _java_hash(name) & (size - 1))


def _java_hash(text: str) -> int:
    """`String.hashCode` of an ASCII text, mixed as hash tables do."""
    value = 0
    for character in text.encode():
        value = (value * 31 + character) & 0xFFFFFFFF
    return value ^ (value >> 16)
