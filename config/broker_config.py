"""The broker's configuration: typed values, what is dynamic among them, and who is told when they change.

Precedence, highest first: dynamic value of this broker, dynamic default of the cluster, static (overrides, environment,
file), default (KIP-226). All of it lives on the event loop; readers elsewhere take what they need beforehand.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from .combinations import cap_intervals
from .combinations import problems as broken_rules
from .errors import ConfigError, Problem
from .key import UpdateMode
from .keys import BROKER_KEYS, LEGACY_TOPIC_KEYS, TOPIC_KEYS
from .listeners import Listener
from .listening import Listening, check_same_names, read_listening
from .setting import Setting, Settings
from .unknown import dynamic_row_of
from .values import ConfigValue

if TYPE_CHECKING:
    from storage.log_config import LogConfig

    from .jaas import JaasFile
    from .topics import DeclaredTopic

log = logging.getLogger(__name__)

NOTHING: Mapping[str, str] = MappingProxyType({})

Callback = Callable[["BrokerConfig"], None]
Trial = Callable[[], Problem | None]
"""What is wrong with values that somebody asks for, tried with the files that they name: not on the loop."""
Examine = Callable[["BrokerConfig"], Trial | None]
"""How the configuration that would be in force is to be tried; None where nothing changes for who is asked."""


class BrokerConfig:
    """Made by `load`. `path` is the file it came from; `warnings` and `notices` are lines for the log."""

    def __init__(
        self, path: str | None, settings: Settings, values: Mapping[str, ConfigValue], listening: Listening
    ) -> None:
        self.path = path
        self.warnings: tuple[str, ...] = ()
        self.notices: tuple[str, ...] = ()
        self.declared_topics: tuple[DeclaredTopic, ...] = ()
        self.jaas_file: JaasFile | None = None
        self.static: Mapping[str, Setting] = settings
        self.cluster_default: Mapping[str, str] = NOTHING
        self.per_broker: Mapping[str, str] = NOTHING
        self._static_values = values
        self._values = values
        self.listening = listening  # of the static values for good: what is open, and told, never moves
        self._log_defaults: LogConfig | None = None
        self._subscribers: list[tuple[frozenset[str], Callback]] = []
        self._examiners: list[Examine] = []
        self._told: set[str] = set()

    # ---- values

    def get(self, key: str) -> ConfigValue:
        """The typed value in force; KeyError for a key that is not in the table."""
        return self._values[key]

    def get_int(self, key: str) -> int:
        value = self._values[key]
        assert isinstance(value, int), key
        return value

    def get_float(self, key: str) -> float:
        value = self._values[key]
        assert isinstance(value, int | float), key
        return value

    def get_bool(self, key: str) -> bool:
        value = self._values[key]
        assert isinstance(value, bool), key
        return value

    def get_list(self, key: str) -> tuple[str, ...]:
        """The entries of a list; none where it is null."""
        value = self._values[key]
        assert value is None or isinstance(value, tuple), key
        return value or ()

    def get_str(self, key: str) -> str | None:
        value = self._values[key]
        assert value is None or isinstance(value, str), key
        return value

    def get_for_listener(self, listener_name: str, key: str) -> ConfigValue:
        """The value of `listener.name.<listener>.<key>`, else that of `key`."""
        prefixed = f"listener.name.{listener_name.lower()}.{key}"
        text = self.originals().get(prefixed)
        if text is None:
            return self._values[key]
        value = BROKER_KEYS[key].read(text)
        return self._values[key] if isinstance(value, Problem) else value

    def get_for_mechanism(
        self, listener_name: str, mechanism: str, key: str, *, unprefixed: bool = True
    ) -> ConfigValue:
        """The value of `listener.name.<listener>.<mechanism>.<key>`, else that for the listener; None if that is only
        there without a prefix, and not `unprefixed`.
        """
        prefixed = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{key}"
        text = self.originals().get(prefixed)
        if text is None:
            return self.get_for_listener(listener_name, key) if unprefixed else None
        value = BROKER_KEYS[key].read(text)
        return None if isinstance(value, Problem) else value

    @property
    def values(self) -> Mapping[str, ConfigValue]:
        """All values in force, by key."""
        return self._values

    @property
    def static_values(self) -> Mapping[str, ConfigValue]:
        """All values without the dynamic ones, by key."""
        return self._static_values

    def is_set(self, key: str) -> bool:
        """Whether somebody gave a value, so that the one in force is no default."""
        return key in self.per_broker or key in self.cluster_default or key in self.static

    def originals(self) -> dict[str, str]:
        """Texts of all that was given, by key, the highest precedence counting."""
        texts = {key: setting.text for key, setting in self.static.items()}
        return texts | dict(self.cluster_default) | dict(self.per_broker)

    # ---- the values that everybody asks for

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def num_workers(self) -> int:
        """How many processes serve clients."""
        return self.get_int("num.workers")

    def is_own_id(self, node_id: int) -> bool:
        """Whether clients see a process of this broker under that id."""
        return 0 <= node_id - self.node_id < self.num_workers

    @property
    def rack(self) -> str | None:
        return self.get_str("broker.rack") or None

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.get_list("log.dirs") or self.get_list("log.dir")

    @property
    def metadata_log_dir(self) -> str:
        """The directory that has the metadata log."""
        return self.get_str("metadata.log.dir") or self.log_dirs[0]

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners to open; those of controllers are left out."""
        return self.listening.opened

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of controllers, which are not opened here."""
        return self.listening.controllers

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told; host None is the address that the client came in on, port 0 the opened one."""
        return self.listening.advertised

    def advertised(self, listener_name: str) -> Listener | None:
        """What clients are told who came in on the listener of that name."""
        return next((listener for listener in self.listening.advertised if listener.name == listener_name), None)

    @property
    def inter_broker_listener_name(self) -> str:
        return self.listening.inter_broker_name

    def internal_topic_value(self, key: str, brokers: int) -> int:
        """Replication factor or min.isr of an internal topic: as given, else no more than there are brokers.

        Kafka's default of 3 would leave a single broker without groups and transactions.
        """
        value = self.get_int(key)
        if self.is_set(key) or value <= brokers:
            return value
        if key not in self._told:
            self._told.add(key)
            log.info("%s is not set: %d instead of %d, as there are no more brokers", key, brokers, value)
        return brokers

    # ---- topics

    def log_config(self, topic_overrides: Mapping[str, str] = NOTHING) -> LogConfig:
        """What a topic's logs work with: its own values, else the broker's."""
        from .topics import default_log_config, known_keys, override_log_config

        if self._log_defaults is None:
            self._log_defaults = default_log_config(self._values)
        if not topic_overrides:
            return self._log_defaults
        self._tell_former(topic_overrides)
        return override_log_config(self._log_defaults, known_keys(self._values), topic_overrides)

    def _tell_former(self, topic_overrides: Mapping[str, str]) -> None:
        """Warn of a topic key of former versions, once each."""
        for key in topic_overrides.keys() & LEGACY_TOPIC_KEYS.keys() - self._told:
            self._told.add(key)
            log.warning("%s is a topic key of former versions, which Apache Kafka 4 ignores", key)

    def validate_topic_config(self, overrides: Mapping[str, str | None], existing: Mapping[str, str] = NOTHING) -> None:
        """Raises ConfigError unless a topic may have these values beside those it has; None is no value (refused)."""
        from .topics import validate_topic_config

        validate_topic_config(self._values, overrides, existing)

    @property
    def topic_defaults_keys(self) -> frozenset[str]:
        """The broker's keys from which topics without a value of their own take theirs."""
        return TOPIC_DEFAULTS_KEYS

    # ---- dynamic values

    def subscribe(self, keys: str | Iterable[str], callback: Callback) -> None:
        """Call `callback` once after every change that touches one of the keys; the new values are then in force."""
        self._subscribers.append((frozenset((keys,) if isinstance(keys, str) else keys), callback))

    def examine_by(self, examine: Examine) -> None:
        """Ask `examine` before dynamic values are changed."""
        self._examiners.append(examine)

    def trials(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> list[Trial]:
        """What is to be tried before these become the dynamic values."""
        if not self._examiners:
            return []
        wanted = copy.copy(self)
        wanted.cluster_default, wanted.per_broker = cluster_default, per_broker
        wanted._values = self.with_dynamic(cluster_default, per_broker)
        return [trial for examine in self._examiners if (trial := examine(wanted)) is not None]

    def apply_dynamic(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> None:
        """Put dynamic values in force, instead of those that were, and tell subscribers.

        The values come out of the metadata log. What can not be used of them (a former version may have written it) is
        logged and left out; a combination that breaks a rule leaves all static values in force.
        """
        before = self.originals()
        self.cluster_default = _usable(cluster_default, UpdateMode.CLUSTER_WIDE)
        self.per_broker = _usable(per_broker, UpdateMode.PER_BROKER)
        values = self.with_dynamic(self.cluster_default, self.per_broker)
        for line in cap_intervals(values):
            log.warning("dynamic configuration: %s", line)
        broken = next(broken_rules(values), None)
        if broken is not None:
            log.warning("dynamic configuration not used: %s", broken.message)
            values = dict(self._static_values)
        try:
            check_same_names(self.listening, read_listening(_settings(self), values))
        except ConfigError as error:
            log.warning("dynamic listeners not used: %s", error)
        former, self._values, self._log_defaults = self._values, values, None
        after = self.originals()
        changed = {key for key, value in values.items() if value != former[key]}
        changed |= {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        for keys, callback in self._subscribers:
            if keys & changed:
                callback(self)

    def with_dynamic(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> dict[str, ConfigValue]:
        """The values that would be in force with these dynamic ones; texts that can not be read are left out."""
        values = dict(self._static_values)
        for key, text in (*cluster_default.items(), *per_broker.items()):
            row = BROKER_KEYS.get(key)
            if row is not None and not isinstance(value := row.read(text), Problem):
                values[key] = value
        return values


TOPIC_DEFAULTS_KEYS = frozenset(name for row in TOPIC_KEYS.values() for name, _ in row.synonyms)


def _usable(texts: Mapping[str, str], least: UpdateMode) -> dict[str, str]:
    """Without what may not be dynamic on that level, or can not be read."""
    usable = {}
    for key, text in texts.items():
        row = dynamic_row_of(key)
        if row is not None:
            value = row.read(text)
            fixed = row.name == key and row.update_mode not in (UpdateMode.CLUSTER_WIDE, least)
            if fixed or isinstance(value, Problem):
                reason = value.message if isinstance(value, Problem) else f"{key} can not be changed dynamically"
                log.warning("dynamic configuration left out: %s", reason)
                continue
        usable[key] = text
    return usable


def _settings(config: BrokerConfig) -> Settings:
    """All that was given, dynamic values included, with where the static ones stand."""
    dynamic = dict(config.cluster_default) | dict(config.per_broker)
    return dict(config.static) | {key: Setting(text, "dynamic configuration") for key, text in dynamic.items()}
