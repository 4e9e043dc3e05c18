"""The broker's configuration: typed values, dynamic values, and subscribers to changes.

Precedence, highest first: this broker's dynamic value, the cluster's dynamic default, the static value (overrides,
environment, file), the default (KIP-226). It is used on the event loop only; code on other threads reads what it needs
beforehand.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
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
Check = Callable[[], Problem | None]
"""Checks requested values, including the files that they name. Returns why they cannot be used. Not on the loop."""
Validator = Callable[["BrokerConfig"], Check | None]
"""Returns the check of a wanted configuration; None if nothing changes for this subscriber."""


class BrokerConfig:
    """Created by `load`. `path` is the file that was read; `warnings` and `notices` are lines for the log."""

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
        self.listening = listening  # from static values: listeners do not change at run time
        self._log_defaults: LogConfig | None = None
        self._subscribers: list[tuple[frozenset[str], Callback]] = []
        self._validators: list[Validator] = []
        self._logged_keys: set[str] = set()

    # ---- values

    def get(self, key: str) -> ConfigValue:
        """Return the typed value in force. Raises KeyError for an unknown key."""
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
        """Return the entries of a list; () if it is null."""
        value = self._values[key]
        assert value is None or isinstance(value, tuple), key
        return value or ()

    def get_str(self, key: str) -> str | None:
        value = self._values[key]
        assert value is None or isinstance(value, str), key
        return value

    def get_for_listener(self, listener_name: str, key: str) -> ConfigValue:
        """Return the value of `listener.name.<listener>.<key>`, else that of `key`."""
        prefixed = f"listener.name.{listener_name.lower()}.{key}"
        text = self.originals().get(prefixed)
        if text is None:
            return self._values[key]
        value = BROKER_KEYS[key].read(text)
        return self._values[key] if isinstance(value, Problem) else value

    def get_for_mechanism(
        self, listener_name: str, mechanism: str, key: str, *, unprefixed: bool = True
    ) -> ConfigValue:
        """Return the value of `listener.name.<listener>.<mechanism>.<key>`, else that for the listener.

        Without `unprefixed`, return None if the value is set without the prefix only.
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
        """Return whether the value was set, and so is not the default."""
        return key in self.per_broker or key in self.cluster_default or key in self.static

    def originals(self) -> dict[str, str]:
        """Return the texts of all values that were set, by key, with the highest precedence."""
        texts = {key: setting.text for key, setting in self.static.items()}
        return texts | dict(self.cluster_default) | dict(self.per_broker)

    # ---- common values

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def is_member(self) -> bool:
        """Whether the controllers of this broker are other nodes."""
        return self.get_list("process.roles") == ("broker",)

    @property
    def is_controller(self) -> bool:
        """Whether this node is a controller and no broker."""
        return self.get_list("process.roles") == ("controller",)

    @property
    def is_combined(self) -> bool:
        """Whether this node is a broker and the controller of a cluster: it opens the controller listeners, too."""
        roles = self.get_list("process.roles")
        return {"broker", "controller"}.issubset(roles) and bool(self.listening.controllers)

    @property
    def rack(self) -> str | None:
        return self.get_str("broker.rack") or None

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.get_list("log.dirs") or self.get_list("log.dir")

    @property
    def metadata_log_dir(self) -> str:
        """The directory with the metadata log."""
        return self.get_str("metadata.log.dir") or self.log_dirs[0]

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners to open, without controller listeners."""
        return self.listening.opened

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The controller listeners."""
        return self.listening.controllers

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The advertised listeners.

        Host None: the address to which the client connected; port 0: the port that was opened.
        """
        return self.listening.advertised

    def advertised(self, listener_name: str) -> Listener | None:
        """Return the advertised listener for clients of this listener, or None."""
        return next((listener for listener in self.listening.advertised if listener.name == listener_name), None)

    @property
    def inter_broker_listener_name(self) -> str:
        return self.listening.inter_broker_name

    def internal_topic_value(self, key: str, brokers: int) -> int:
        """Return the replication factor or min.isr of an internal topic: as set, else at most the number of brokers.

        With Kafka's default of 3, a single broker would have neither groups nor transactions.
        """
        value = self.get_int(key)
        if self.is_set(key) or value <= brokers:
            return value
        if key not in self._logged_keys:
            self._logged_keys.add(key)
            log.info("%s is not set: using %d instead of %d, the number of brokers", key, brokers, value)
        return brokers

    # ---- topics

    def log_config(self, topic_overrides: Mapping[str, str] = NOTHING, topic: str = "") -> LogConfig:
        """Return the configuration of a topic's logs: its own values, else the broker's.

        Some `topic`s of the broker's own are never in tiered storage.
        """
        from .topics import default_log_config, known_keys, override_log_config

        if self._log_defaults is None:
            self._log_defaults = default_log_config(self._values)
        if not topic_overrides:
            return self._log_defaults
        self._warn_about_earlier_keys(topic_overrides)
        return override_log_config(self._log_defaults, known_keys(self._values), topic_overrides, topic)

    def _warn_about_earlier_keys(self, topic_overrides: Mapping[str, str]) -> None:
        """Warn about topic keys of earlier versions, once per key."""
        for key in topic_overrides.keys() & LEGACY_TOPIC_KEYS.keys() - self._logged_keys:
            self._logged_keys.add(key)
            log.warning("%s is a topic key of earlier versions, which Apache Kafka 4 ignores", key)

    def validate_topic_config(
        self,
        overrides: Mapping[str, str | None],
        former: Mapping[str, str] = NOTHING,
        removed: Collection[str] = (),
    ) -> None:
        """Raise ConfigError unless a topic with the configuration `former` may get these values.

        It loses the keys `removed`. None as a value is invalid.
        """
        from .topics import validate_topic_config

        validate_topic_config(self._values, overrides, former, removed)

    @property
    def topic_defaults_keys(self) -> frozenset[str]:
        """The broker's keys that supply the values of topics without their own."""
        return TOPIC_DEFAULTS_KEYS

    # ---- dynamic values

    def subscribe(self, keys: str | Iterable[str], callback: Callback) -> None:
        """Call `callback` after every change of one of the keys, once, with the new values in force."""
        self._subscribers.append((frozenset((keys,) if isinstance(keys, str) else keys), callback))

    def add_validator(self, validator: Validator) -> None:
        """Call `validator` before dynamic values change; its check may reject them."""
        self._validators.append(validator)

    def pending_checks(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> list[Check]:
        """Return the checks to make before these become the dynamic values."""
        if not self._validators:
            return []
        wanted = copy.copy(self)
        wanted.cluster_default, wanted.per_broker = cluster_default, per_broker
        wanted._values = self.with_dynamic(cluster_default, per_broker)
        return [check for validator in self._validators if (check := validator(wanted)) is not None]

    def apply_dynamic(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> None:
        """Replace the dynamic values, and call subscribers.

        The values come from the metadata log. Invalid ones, perhaps written by an earlier version, are logged and
        ignored. If their combination breaks a rule, all static values stay in force.
        """
        before = self.originals()
        self.cluster_default = _valid_dynamic(cluster_default, UpdateMode.CLUSTER_WIDE)
        self.per_broker = _valid_dynamic(per_broker, UpdateMode.PER_BROKER)
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
        """Return the values that would be in force with these dynamic ones. Invalid texts are ignored."""
        values = dict(self._static_values)
        for key, text in (*cluster_default.items(), *per_broker.items()):
            row = BROKER_KEYS.get(key)
            if row is not None and not isinstance(value := row.read(text), Problem):
                values[key] = value
        return values


TOPIC_DEFAULTS_KEYS = frozenset(name for row in TOPIC_KEYS.values() for name, _ in row.synonyms)


def _valid_dynamic(texts: Mapping[str, str], least: UpdateMode) -> dict[str, str]:
    """Return the texts that are valid and may be dynamic on this level."""
    usable = {}
    for key, text in texts.items():
        row = dynamic_row_of(key)
        if row is not None:
            value = row.read(text)
            fixed = row.name == key and row.update_mode not in (UpdateMode.CLUSTER_WIDE, least)
            if fixed or isinstance(value, Problem):
                reason = value.message if isinstance(value, Problem) else f"{key} cannot be changed dynamically"
                log.warning("dynamic configuration left out: %s", reason)
                continue
        usable[key] = text
    return usable


def _settings(config: BrokerConfig) -> Settings:
    """Return all settings, including dynamic ones, with the origins of the static ones."""
    dynamic = dict(config.cluster_default) | dict(config.per_broker)
    return dict(config.static) | {key: Setting(text, "dynamic configuration") for key, text in dynamic.items()}
