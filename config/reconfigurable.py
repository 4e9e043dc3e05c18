"""Dynamic changes that parts of Kafka 4.3's broker reject (KIP-226), though a start accepts the values.

A thread pool may shrink to half or grow to twice its size at a time; connection limits must not be 0; local retention
must not exceed the total retention, nor the lag of copies to tiered storage the local retention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .combinations import retention_ms
from .errors import Problem, rule
from .keys import TOPIC_KEYS
from .unknown import without_listener
from .values import ConfigValue

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

Values = Mapping[str, ConfigValue]

CLEANERS = "log.cleaner.threads"
NETWORK = "num.network.threads"
POOLS = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    NETWORK,
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
CONNECTION_LIMITS = ("max.connections", "max.connection.creation.rate")
#: Keys of the defaults of topics. A change of one checks the limits of local retention, whichever it is.
LOG_KEYS = frozenset(name for row in TOPIC_KEYS.values() for name, _ in row.synonyms)
AS_THE_WHOLE = -2
"""Local retention: the same as the total retention."""


def problems(config: BrokerConfig, values: Values, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of a change from `config` to `values`, and of listeners' own keys to those in `texts`."""
    for key, count, current in _changes(config, values, texts):
        if key == CLEANERS:
            yield from _cleaners(count, current)
        elif key in POOLS:
            yield from _pool(key, count, current)
        elif key in CONNECTION_LIMITS and count <= 0:
            yield _problem(key, f"Invalid {key} {count}")
    if not any(key in texts or values[key] != config.values[key] for key in LOG_KEYS):
        return
    retained = {"log.retention.ms": retention_ms(values), "log.retention.bytes": _number(values["log.retention.bytes"])}
    for whole, limit in retained.items():
        yield from _local(values, whole, limit)
    for whole, limit in retained.items():
        yield from _copy_lag(values, whole, limit)


def _changes(config: BrokerConfig, values: Values, texts: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    """Yield the keys that change, with the new and the current number."""
    for key in (CLEANERS, *POOLS, *CONNECTION_LIMITS):
        count, current = _number(values[key]), config.get_int(key)
        if count != current:
            yield key, count, current
    for key, text in texts.items():
        base = without_listener(key)
        if base != key and base in (NETWORK, *CONNECTION_LIMITS):
            listener_name = key.split(".")[2]
            yield base, int(text), _number(config.get_for_listener(listener_name, base))


def _cleaners(count: int, current: int) -> Iterator[Problem]:
    if count < 1:
        yield _problem(CLEANERS, "Log cleaner threads should be at least 1")
    elif count < current // 2:
        what = f"cannot be reduced to less than half the current value {current}"
        yield _problem(CLEANERS, f"Log cleaner threads {what}")
    elif count > current * 2:
        what = f"cannot be increased to more than double the current value {current}"
        yield _problem(CLEANERS, f"Log cleaner threads {what}")


def _pool(key: str, count: int, current: int) -> Iterator[Problem]:
    failed = f"Dynamic thread count update validation failed for {key}={count}, value should"
    if count < current // 2:
        yield _problem(key, f"{failed} be at least half the current value {current}")
    elif count > current * 2:
        yield _problem(key, f"{failed} not be greater than double the current value {current}")


def _local(values: Values, whole: str, limit: int) -> Iterator[Problem]:
    key = whole.replace("log.", "log.local.", 1)
    local = _number(values[key])
    if local == AS_THE_WHOLE or limit == -1:
        return
    invalid = f"Invalid value {local} for configuration {key}: Value must not be"
    if local == -1:
        yield _problem(key, f"{invalid} -1 as {whole} value is set as {limit}.")
    elif local > limit:
        yield _problem(key, f"{invalid} more than {whole} property value: {limit}")


def _copy_lag(values: Values, whole: str, limit: int) -> Iterator[Problem]:
    """Yield the problem of copies to tiered storage that lag further behind than local retention (KIP-1241)."""
    local_key = whole.replace("log.", "log.local.", 1)
    key = whole.replace("log.retention", "log.remote.copy.lag", 1)
    lag, local = _number(values[key]), _number(values[local_key])
    local = limit if local == AS_THE_WHOLE else local
    if lag > local >= 0:
        invalid = f"Invalid value {lag} for configuration {key}: Value must not exceed {local_key}"
        yield _problem(key, f"{invalid} (effective value: {local})")


def _problem(key: str, what: str) -> Problem:
    """Return the problem with Kafka's sentence around it, which other tools parse."""
    exception = "org.apache.kafka.common.config.ConfigException"
    return rule(f"Invalid value {exception}: {what} for configuration Invalid dynamic configuration", key)


def _number(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value
