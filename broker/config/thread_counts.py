"""How far a change may take the sizes of thread pools at a time, as Kafka 4.3 has it: half, or twice (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .errors import Problem, rule
from .unknown import without_listener
from .values import ConfigValue

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

CLEANERS = "log.cleaner.threads"
NETWORK = "num.network.threads"
POOLS = ("num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads", NETWORK)


def problems(config: BrokerConfig, values: Mapping[str, ConfigValue], texts: Mapping[str, str]) -> Iterator[Problem]:
    """What is too much of a change from `config`: to `values`, and of listeners' own numbers to those in `texts`."""
    count, current = _number(values[CLEANERS]), config.get_int(CLEANERS)
    if count != current:
        if count < 1:
            yield _problem(CLEANERS, "Log cleaner threads should be at least 1")
        elif count < current // 2:
            what = f"cannot be reduced to less than half the current value {current}"
            yield _problem(CLEANERS, f"Log cleaner threads {what}")
        elif count > current * 2:
            what = f"cannot be increased to more than double the current value {current}"
            yield _problem(CLEANERS, f"Log cleaner threads {what}")
    for key in POOLS:
        yield from _pool(key, _number(values[key]), config.get_int(key))
    for key, text in texts.items():
        if key != NETWORK and without_listener(key) == NETWORK:
            listener_name = key.split(".")[2]
            yield from _pool(NETWORK, int(text), _number(config.get_for_listener(listener_name, NETWORK)))


def _pool(key: str, count: int, current: int) -> Iterator[Problem]:
    failed = f"Dynamic thread count update validation failed for {key}={count}, value should"
    if count < current // 2:
        yield _problem(key, f"{failed} be at least half the current value {current}")
    elif count > current * 2:
        yield _problem(key, f"{failed} not be greater than double the current value {current}")


def _problem(key: str, what: str) -> Problem:
    """With Kafka's sentence around it, which tools of others look into."""
    exception = "org.apache.kafka.common.config.ConfigException"
    return rule(f"Invalid value {exception}: {what} for configuration Invalid dynamic configuration", key)


def _number(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value
