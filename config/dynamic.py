"""The values that may be dynamic, checked as in Kafka 4.3's DynamicBrokerConfig, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .combinations import problems as broken_rules
from .errors import ConfigError, Problem, rule
from .key import UpdateMode
from .listening import check_same_names, read_listening
from .reconfigurable import problems as refused_changes
from .setting import Setting
from .unknown import dynamic_row_of, without_listener
from .values import ConfigType

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

PER_LISTENER_ONLY = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)
"""Keys that may be dynamic only with a listener's prefix; without it, all listeners share the static value."""

CLUSTER_LEVEL_LISTENER_KEYS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Keys that may be dynamic for all brokers even with a listener's prefix."""

REQUIRED = frozenset(
    {
        "connection.failed.authentication.delay.ms",
        "cordoned.log.dirs",
        "log.cleaner.dedupe.buffer.size",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "max.connections.per.ip",
    }
)
"""Keys whose rules are Scala requirements in Kafka, which changes the message."""


def check_dynamic(config: BrokerConfig, texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigError unless `texts` are valid as all dynamic values of this broker, or of the cluster."""
    rows = {key: row for key in texts if (row := dynamic_row_of(key)) is not None}
    _refuse(
        "Cannot update these configs dynamically",
        (key for key, row in rows.items() if row.name == key and row.update_mode is UpdateMode.READ_ONLY),
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (key for key in texts if key in PER_LISTENER_ONLY),
    )
    for key, row in rows.items():
        value = row.read(texts[key])
        if isinstance(value, Problem):
            raise ConfigError(value)
        if row.type is ConfigType.CLASS and value != row.default:
            raise ConfigError(Problem(key, texts[key], f"Class {value} could not be found."))
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (key for key in texts if _is_per_broker(key)),
        )
    default, own = (config.cluster_default, texts) if per_broker else (texts, config.per_broker)
    values = config.with_dynamic(default, own)
    broken = next(broken_rules(values), None)
    if broken is not None:
        raise ConfigError(_as_required(broken))
    broken = next(refused_changes(config, values, texts), None)
    if broken is not None:
        raise ConfigError(broken)
    given = {key: Setting(text, "") for key, text in {**default, **own}.items()}
    check_same_names(config.listening, read_listening({**config.static, **given}, values))


def _as_required(problem: Problem) -> Problem:
    """Return the problem with the prefix that Scala adds to some of Kafka's messages."""
    if problem.sentence and problem.key in REQUIRED:
        return replace(problem, sentence=f"requirement failed: {problem.sentence}")
    return problem


def _is_per_broker(key: str) -> bool:
    base = without_listener(key)
    if base != key:
        return base not in CLUSTER_LEVEL_LISTENER_KEYS
    row = dynamic_row_of(key)
    return row is not None and row.update_mode is UpdateMode.PER_BROKER


def _refuse(sentence: str, keys: Iterable[str]) -> None:
    refused = list(keys)
    if refused:
        raise ConfigError(rule(f"{sentence}: [{', '.join(refused)}]", refused[0]))
