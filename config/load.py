"""Load a `BrokerConfig` from a file, the environment and the command line, and check all of it.

Later sources win: defaults, file, environment, overrides. All problems are collected, so that one start shows them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pybroker.text_files import file_bytes

from .authorizer import FORMER_AUTHORIZERS, STANDARD_AUTHORIZER, authorizer_problems
from .broker_config import BrokerConfig
from .combinations import problems as broken_rules
from .environ import read_environment
from .errors import ConfigError, Problem
from .keys import BROKER_KEYS
from .keys.why_inert import why_inert
from .listening import LISTENING_KEYS, Listening, read_listening
from .properties import parse_properties
from .providers import replace_variables
from .renamed_keys import translate
from .setting import Setting, Settings
from .topics import declared_topics
from .unknown import row_of, unknown_key_reason
from .values import ConfigType, ConfigValue, parse

NOTHING: Mapping[str, str] = MappingProxyType({})

DEFAULT_NODE_ID = 1
TIERED = "remote.log.storage.system.enable"
#: Their values are prefixes of keys that belong to plugins.
PLUGIN_PREFIX_KEYS = ("remote.log.storage.manager.impl.prefix", "remote.log.metadata.manager.impl.prefix")

# Keys with Java classes that are errors unless this broker has an equivalent of the class.
_CHECKED_CLASSES = frozenset(
    {
        "authorizer.class.name",
        "client.quota.callback.class",
        "sasl.server.callback.handler.class",
        "sasl.oauthbearer.jwt.validator.class",
    }
)


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, str] = NOTHING,
    environ: Mapping[str, str] = NOTHING,
    strict: bool = False,
    to_serve: bool = False,
) -> BrokerConfig:
    """Read and check a configuration. Without arguments it has all defaults.

    Raises ConfigError with all problems (see errors.py), OSError if the file cannot be read. Unknown keys are warnings,
    or problems if `strict`. Warnings and notices are for the log, once logging is set up. With `to_serve`, settings
    that the broker could not serve are problems, too: SASL mechanisms, key stores with wrong passwords, authorizers,
    consoles, remote storage.
    """
    found = _Findings()
    settings = _read_file(path, found) if path is not None else {}
    settings.update(read_environment(environ))
    settings.update({key: Setting(value, "--override") for key, value in overrides.items()})
    found.problems += replace_variables(settings, environ)
    in_cluster = _roles_in_cluster(settings)
    of_plugins = tuple(each.text for key in PLUGIN_PREFIX_KEYS if (each := settings.get(key)) is not None and each.text)
    for key, setting in settings.items():
        if not key.startswith(of_plugins) or row_of(key) is not None:
            _warn_about(key, setting, strict, in_cluster, found)
    translate(settings)
    _unify_node_id(settings, found)
    values = _read_values(settings, found)
    _check_roles(settings, values, found)
    listening = _check_together(settings, values, found)
    found.refuse_if_wrong()

    config = BrokerConfig(os.fspath(path) if path is not None else None, settings, values, listening)
    if "java.security.auth.login.config" in environ.get("KAFKA_OPTS", ""):
        from .jaas import jaas_file  # most configurations have none

        config.jaas_file = jaas_file(environ)
    found.notices += _notices(config, settings)
    if to_serve:
        found.warnings += (str(_with_origin(each, settings)) for each in _serving_warnings(config))
        found.problems += (_with_origin(each, settings) for each in _serving_problems(config))
        found.refuse_if_wrong()
    config.warnings, config.notices = tuple(found.warnings), tuple(found.notices)
    try:
        config.declared_topics = declared_topics(config.values)
    except ConfigError as error:
        raise ConfigError(*(_with_origin(problem, settings) for problem in error.problems)) from None
    return config


class _Findings:
    """Messages about a configuration: `problems` are errors; `notices` are about valid but surprising settings."""

    __slots__ = ("notices", "problems", "warnings")

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self.problems: list[Problem] = []

    def refuse_if_wrong(self) -> None:
        """Raise ConfigError with all problems, if there are any."""
        if self.problems:
            refused = ConfigError(*self.problems)
            refused.warnings = tuple(self.warnings)
            raise refused


def _notices(config: BrokerConfig, settings: Settings) -> Iterator[str]:
    """Yield notes about valid but surprising settings."""
    if config.listening.controllers and not (config.is_controller or config.is_combined):
        names = ", ".join(str(listener) for listener in config.listening.controllers)
        why = "without process.roles=broker,controller the broker is a node alone"
        yield f"the controller listener {names} is not opened: {why}"
    if "log.dirs" not in settings and "log.dir" not in settings:
        yield "log.dirs is not set: data is stored in /tmp/kafka-logs, which many systems delete at boot"
    if config.jaas_file is not None:
        yield f"listeners without sasl.jaas.config use the login modules of {config.jaas_file.path} (KAFKA_OPTS)"


def _serving_problems(config: BrokerConfig) -> Iterator[Problem]:
    if config.get_bool(TIERED):
        from .tiering import tiering_problems  # most brokers have no remote storage

        yield from tiering_problems(config)
    yield from authorizer_problems(config)
    if config.get_list("console.listeners"):
        from .console import console_problems  # most configurations have none

        yield from console_problems(config)
    if any(listener.security_protocol.startswith("SASL_") for listener in config.listeners):
        from .sasl import sasl_problems  # most configurations have none

        yield from sasl_problems(config)
    if any(listener.security_protocol.endswith("SSL") for listener in config.listeners):
        from .tls import tls_problems  # most configurations have none

        yield from tls_problems(config)


def _serving_warnings(config: BrokerConfig) -> Iterator[Problem]:
    if config.get_bool(TIERED):
        from .tiering import tiering_warnings

        yield from tiering_warnings(config)
    if any(listener.security_protocol.startswith("SASL_") for listener in config.listeners):
        from .sasl import sasl_warnings

        yield from sasl_warnings(config)


def _read_file(path: str | os.PathLike[str], found: _Findings) -> Settings:
    name = os.fspath(path)
    entries = parse_properties(file_bytes(path), name)
    settings: Settings = {}
    for entry in entries:
        former = settings.get(entry.key)
        if former is not None:
            found.warnings.append(
                f"{name}:{entry.line}: {entry.key} is set again; the value at {former.origin} is ignored"
            )
        settings[entry.key] = Setting(entry.value, f"{name}:{entry.line}")
    return settings


def _roles_in_cluster(settings: Settings) -> frozenset[str]:
    """Return the roles, without those of a node alone: it opens no controller listener (BrokerConfig.is_combined)."""

    def words(key: str) -> list[str]:
        setting = settings.get(key)
        return [] if setting is None else [each for word in setting.text.split(",") if (each := word.strip())]

    roles = frozenset(words("process.roles"))
    return frozenset() if len(roles) > 1 and not words("controller.listener.names") else roles


def _warn_about(key: str, setting: Setting, strict: bool, roles: frozenset[str], found: _Findings) -> None:
    """Warn about a key that is unknown, of an earlier version, or without effect."""
    row = row_of(key)
    if row is None:
        reason = unknown_key_reason(key)
        if reason is None:
            return
        if strict:
            found.problems.append(Problem(key, None, reason, "known keys", setting.origin))
        else:
            found.warnings.append(f"{setting.origin}: {key}: {reason}; it has no effect")
    elif reason := why_inert(row.inert, is_member="broker" in roles, is_controller="controller" in roles):
        found.warnings.append(f"{setting.origin}: {key} has no effect here: {reason}")
    elif row.replaced_by:
        found.warnings.append(
            f"{setting.origin}: {key} is a key of earlier versions; the current key is {' and '.join(row.replaced_by)}"
        )
    elif row.removed:
        found.warnings.append(f"{setting.origin}: {key} is a key of earlier versions, which Apache Kafka 4 ignores")
    elif row.name in _CHECKED_CLASSES:
        if setting.text.strip() in FORMER_AUTHORIZERS:
            found.warnings.append(
                f"{setting.origin}: {key}: {setting.text.strip()} is a class of earlier versions; it is read as"
                f" {STANDARD_AUTHORIZER}"
            )
    elif row.type is ConfigType.CLASS and setting.text.strip() != row.default:
        found.warnings.append(f"{setting.origin}: {key}: Java classes are not loaded; it has no effect")


def _unify_node_id(settings: Settings, found: _Findings) -> None:
    """Make node.id and broker.id equal: either gives the other; -1 generates an id."""
    node, broker = settings.get("node.id"), settings.get("broker.id")
    if node is None and broker is not None and broker.text.strip() == "-1":
        broker = _generated_id(settings, broker, found)
    if node is not None and broker is not None and node.text.strip() != broker.text.strip():
        reason = "You must set `node.id` to the same value as `broker.id`."
        found.problems.append(Problem("node.id", node.text, reason, broker.text, node.origin, sentence=reason))
    settings["node.id"] = node or broker or Setting(str(DEFAULT_NODE_ID), "default")
    settings["broker.id"] = settings["node.id"]


def _generated_id(settings: Settings, asked: Setting, found: _Findings) -> Setting | None:
    """Return the first id after those reserved for users, as Kafka gave it to its first broker."""
    generate = settings.get("broker.id.generation.enable")
    if generate is not None and generate.text.strip().lower() == "false":
        allowed = "0 or more, or broker.id.generation.enable=true"
        found.problems.append(Problem("broker.id", "-1", "ids are not generated", allowed, asked.origin))
        return None
    reserved = settings.get("reserved.broker.max.id", Setting("1000", "")).text.strip()
    if not reserved.isdecimal():  # the check of its own row reports the error
        return None
    found.notices.append(f"broker.id=-1: the node id is {int(reserved) + 1}")
    return Setting(str(int(reserved) + 1), asked.origin)


def _read_values(settings: Settings, found: _Findings) -> dict[str, ConfigValue]:
    """Return the typed values of all keys. Settings with a listener's prefix are checked, too."""
    values: dict[str, ConfigValue] = {key: row.default for key, row in BROKER_KEYS.items()}
    for key, setting in settings.items():
        row = row_of(key)
        if row is None or key == "broker.id":  # read as node.id
            continue
        value = row.read(setting.text)
        if isinstance(value, Problem):
            found.problems.append(_placed(value, key, setting))
        elif key in values:
            values[key] = value
            given = parse(row.type, setting.text)
            if isinstance(value, tuple) and isinstance(given, tuple) and len(value) < len(given):
                taken = "" if setting.given else f": using {','.join(value)}"
                found.warnings.append(f"{setting.origin}: {key}={setting.shown} has a duplicate entry{taken}")
    values["broker.id"] = values["node.id"]
    return values


def _check_roles(settings: Settings, values: dict[str, ConfigValue], found: _Findings) -> None:
    """Check the roles: a broker that is its own controller, a member that can find its controllers, or a controller.

    Without the controller role it must not start a cluster of its own beside the one that it should join.
    """
    roles = values["process.roles"]
    setting = settings.get("process.roles")
    if setting is None or not isinstance(roles, tuple):
        return
    if {"broker", "controller"}.issubset(roles):
        if values["controller.quorum.voters"] or len(_entries(values, "controller.quorum.bootstrap.servers")) > 1:
            from .membership import quorum_problems  # most configurations name no others

            found.problems += (_with_origin(each, settings) for each in quorum_problems(values))
        return
    if "broker" in roles:
        from .membership import member_problems

        found.problems += (_with_origin(each, settings) for each in member_problems(values))
        return
    from .controllers import controller_problems

    found.problems += (_with_origin(each, settings) for each in controller_problems(values))


def _entries(values: dict[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    return value if isinstance(value, tuple) else ()


def _check_together(settings: Settings, values: dict[str, ConfigValue], found: _Findings) -> Listening:
    """Check rules between keys, and return the listeners; no listeners if one of their keys is invalid.

    An invalid key has its default in `values`. Errors that follow from the default alone are not reported.
    """
    wrong = {problem.key for problem in found.problems}
    found.problems += (
        _with_origin(problem, settings)
        for problem in broken_rules(values)
        if wrong.isdisjoint((problem.key, *problem.reason.split()))
    )
    if wrong.isdisjoint(LISTENING_KEYS):
        try:
            return read_listening(settings, values)
        except ConfigError as error:
            found.problems += (_with_origin(problem, settings) for problem in error.problems)
    return Listening((), (), "PLAINTEXT", ())


def _placed(problem: Problem, key: str, setting: Setting) -> Problem:
    if setting.given:  # neither the value nor a message with it is shown: it may be a secret
        reason = "the value from a config provider is not allowed"
        return Problem(key, setting.given, reason, problem.allowed, setting.origin)
    return Problem(key, problem.value, problem.reason, problem.allowed, setting.origin, problem.sentence)


def _with_origin(problem: Problem, settings: Settings) -> Problem:
    setting = settings.get(problem.key)
    return _placed(problem, problem.key, setting) if setting is not None else problem
