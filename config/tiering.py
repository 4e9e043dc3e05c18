"""The settings of tiered storage: those of Kafka's two plugins, whose keys have a prefix, and the checks of a start."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from remote.errors import SettingError
from remote.storage_settings import read_settings, setting_errors

from .combinations import retention_ms
from .errors import Problem
from .key import table
from .keys import BROKER_KEYS
from .keys.tiered import METADATA_TOPIC_KEYS
from .keys.why_inert import NO_TOPIC_CLIENTS
from .tiered_topics import local_retention_problems

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

STORAGE_CLASS = "remote.log.storage.manager.class.name"
_STORAGE_PREFIX = "remote.log.storage.manager.impl.prefix"
_METADATA_CLASS = "remote.log.metadata.manager.class.name"
_METADATA_PREFIX = "remote.log.metadata.manager.impl.prefix"
_LISTENER = "remote.log.metadata.manager.listener.name"
_METADATA_KEYS = table(METADATA_TOPIC_KEYS)
#: Prefixes of settings of the clients that Kafka's class has.
_CLIENTS = tuple(f"remote.log.metadata.{name}." for name in ("common.client", "producer", "consumer", "admin"))


class StorageSettings(NamedTuple):
    """The class that stores segments, its settings by key, and the prefix that their keys have in the file."""

    class_name: str | None
    settings: dict[str, str]
    prefix: str


class MetadataTopic(NamedTuple):
    """How `__remote_log_metadata` is created. `retention_ms` is -1 without a limit."""

    partitions: int
    replication_factor: int
    min_isr: int
    retention_ms: int


def storage_settings(config: BrokerConfig) -> StorageSettings:
    """Return the settings of the class that stores segments."""
    prefix = config.get_str(_STORAGE_PREFIX) or ""
    return StorageSettings(config.get_str(STORAGE_CLASS), _with_prefix(config, prefix), prefix)


def metadata_topic(config: BrokerConfig, brokers: int) -> MetadataTopic:
    """Return the settings of the metadata. Numbers of replicas that are not set are at most that of the brokers."""
    prefix = config.get_str(_METADATA_PREFIX) or ""
    texts = _with_prefix(config, prefix)

    def number(name: str) -> int:
        row = _METADATA_KEYS[f"remote.log.metadata.topic.{name}"]
        value = row.read(texts[row.name]) if row.name in texts else row.default
        assert isinstance(value, int)  # the start has refused others
        return value

    def replicas(name: str) -> int:
        value = number(name)
        return value if f"remote.log.metadata.topic.{name}" in texts else min(value, brokers)

    return MetadataTopic(
        number("num.partitions"),
        replicas("replication.factor"),
        replicas("min.isr"),
        number("retention.ms"),
    )


def located(config: BrokerConfig, error: SettingError) -> Problem:
    """Return the problem of a setting of the storage class, with the origin of its value.

    A value from a config provider is not shown.
    """
    setting = config.static.get(error.key)
    if setting is not None and setting.given:
        reason = "the value from a config provider cannot be used"
        return Problem(error.key, setting.given, reason, error.allowed, setting.origin)
    return Problem(error.key, error.value, error.reason, error.allowed, setting.origin if setting else "")


def tiering_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield why a broker with tiered storage cannot start with these settings. It touches no storage."""
    if config.is_controller:
        return  # it checks topics, and stores nothing
    class_name, settings, prefix = storage_settings(config)
    errors = setting_errors(class_name, settings, prefix)
    yield from (Problem(error.key, error.value, error.reason, error.allowed) for error in errors)
    if not errors:
        chosen = read_settings(class_name, settings, prefix)
        yield from _place_problems(config, prefix + chosen.location_key, chosen.directory)
    yield from _metadata_problems(config)
    yield from _retention_problems(config)


def _place_problems(config: BrokerConfig, key: str, directory: str | None) -> Iterator[Problem]:
    """Yield the problem of remote storage within a log directory: Apache Kafka refuses to start with such folders."""
    if directory is None:
        return
    for log_dir in map(os.path.abspath, config.log_dirs):
        if os.path.commonpath((log_dir, directory)) == log_dir:
            yield Problem(key, directory, f"is within the log directory {log_dir}", "a directory beside log.dirs")
            return


def _metadata_problems(config: BrokerConfig) -> Iterator[Problem]:
    class_name, known = config.get_str(_METADATA_CLASS), BROKER_KEYS[_METADATA_CLASS].default_text or ""
    if class_name != known:
        yield Problem(_METADATA_CLASS, class_name, "this metadata class is not supported", known)
        return
    listener = config.get_str(_LISTENER)
    names = [each.name for each in config.listeners]
    if listener is not None and listener.upper() not in names:
        reason = "Should be set as a listener name within valid broker listener name list"
        yield Problem(_LISTENER, listener, reason, ", ".join(names))
    prefix = config.get_str(_METADATA_PREFIX) or ""
    for name, text in _with_prefix(config, prefix).items():
        row = _METADATA_KEYS.get(name)
        if row is not None and isinstance(value := row.read(text), Problem):
            yield Problem(prefix + name, value.value, value.reason, value.allowed)


def _retention_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield the problems of local retention, which a start of Kafka checks only if the system is on."""
    values = dict(config.values) | {"log.retention.ms": retention_ms(config.values)}
    yield from local_retention_problems(values, "log.retention.bytes", "log.local.retention.bytes")
    yield from local_retention_problems(values, "log.retention.ms", "log.local.retention.ms")


def tiering_warnings(config: BrokerConfig) -> Iterator[Problem]:
    """Yield settings of the plugins that have no effect."""
    if config.is_controller:
        return
    class_name, settings, prefix = storage_settings(config)
    try:
        ignored = read_settings(class_name, settings, prefix).ignored
    except SettingError:
        ignored = ()
    for name in ignored:
        yield Problem(prefix + name, None, "it has no effect here")
    prefix = config.get_str(_METADATA_PREFIX) or ""
    for name in _with_prefix(config, prefix):
        row = _METADATA_KEYS.get(name)
        if name.startswith(_CLIENTS):
            yield Problem(prefix + name, None, f"has no effect here: {NO_TOPIC_CLIENTS}")
        elif row is None:
            yield Problem(prefix + name, None, f"unknown key{_like(prefix, name)}; it has no effect")
        elif row.inert:
            yield Problem(prefix + name, None, f"has no effect here: {row.inert}")


def _like(prefix: str, name: str) -> str:
    from difflib import get_close_matches  # needed for mistakes only

    near = get_close_matches(name, _METADATA_KEYS, n=1)
    return f", did you mean {prefix}{near[0]}?" if near else ""


def _with_prefix(config: BrokerConfig, prefix: str) -> dict[str, str]:
    """Return the settings of the file, the environment and the command line, without the prefix of their keys."""
    return {key.removeprefix(prefix): each.text for key, each in config.static.items() if key.startswith(prefix)}
