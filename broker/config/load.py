"""From a file, the environment and the command line to a `BrokerConfig`: everything read, checked and explained once.

Later sources win: defaults, file, environment, overrides. All problems are collected, so that one start shows them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from .authorizer import FORMER_AUTHORIZERS, STANDARD_AUTHORIZER, authorizer_problems, has_authorizer
from .broker_config import BrokerConfig
from .combinations import problems as broken_rules
from .environ import read_environment
from .errors import ConfigError, Problem
from .former import translate
from .keys import BROKER_KEYS
from .listening import LISTENING_KEYS, Listening, read_listening
from .properties import parse_properties
from .providers import fill_in
from .setting import Setting, Settings
from .topics import declared_topics
from .unknown import row_of, unknown_key_reason
from .values import ConfigType, ConfigValue, parse

NOTHING: Mapping[str, str] = MappingProxyType({})

DEFAULT_NODE_ID = 1

# Refused where they are none that is served here as well.
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
    """Read and check a configuration; without `path` and the rest it is all defaults.

    Raises ConfigError with every problem found (see errors.py), OSError when the file can not be read. Unknown keys
    become warnings of the result, or problems if `strict`. Warnings and notices are for the log, once there is one.
    With `to_serve` what the broker could not serve is a problem, too: SASL mechanisms, stores that their passwords do
    not open, authorizers, consoles.
    """
    warnings: list[str] = []
    notices: list[str] = []
    problems: list[Problem] = []

    settings = _read_file(path, warnings) if path is not None else {}
    settings.update(read_environment(environ))
    settings.update({key: Setting(value, "--override") for key, value in overrides.items()})
    problems += fill_in(settings, environ)
    for key, setting in settings.items():
        _remark(key, setting, strict, warnings, problems)
    translate(settings)
    _settle_node_id(settings, notices, problems)
    values = _read_values(settings, warnings, problems)
    _check_roles(settings, values, notices, problems)
    listening = Listening((), (), "PLAINTEXT", ())
    # What has no value has its default here: what only follows from that is not told.
    wrong = {problem.key for problem in problems}
    broken = [
        each for each in broken_rules(values) if not any(key in (each.key, *each.reason.split()) for key in wrong)
    ]
    problems += (_with_origin(problem, settings) for problem in broken)
    if wrong.isdisjoint(LISTENING_KEYS):
        try:
            listening = read_listening(settings, values)
        except ConfigError as error:
            problems += (_with_origin(problem, settings) for problem in error.problems)
    if problems:
        refused = ConfigError(*problems)
        refused.warnings = tuple(warnings)
        raise refused

    config = BrokerConfig(os.fspath(path) if path is not None else None, settings, values, listening)
    if "java.security.auth.login.config" in environ.get("KAFKA_OPTS", ""):
        from .jaas import jaas_file  # most have none

        config.jaas_file = jaas_file(environ)
    notices += _notices(config, settings)
    if to_serve:
        warnings += (str(_with_origin(each, settings)) for each in _security_warnings(config))
    config.warnings, config.notices = tuple(warnings), tuple(notices)
    if to_serve and (unserved := [_with_origin(each, settings) for each in _security_problems(config)]):
        refused = ConfigError(*unserved)
        refused.warnings = tuple(warnings)
        raise refused
    try:
        config.declared_topics = declared_topics(config)
    except ConfigError as error:
        raise ConfigError(*(_with_origin(problem, settings) for problem in error.problems)) from None
    return config


def _notices(config: BrokerConfig, settings: Settings) -> Iterator[str]:
    """What is in order, and may surprise."""
    if config.listening.controllers:
        names = ", ".join(str(listener) for listener in config.listening.controllers)
        yield f"the controller listener {names} is not opened: the broker is its own controller"
    if "log.dirs" not in settings and "log.dir" not in settings:
        yield "log.dirs is not set: data goes to /tmp/kafka-logs, which many systems empty when they start"
    if config.jaas_file is not None:
        yield f"login modules that no sasl.jaas.config gives are those of {config.jaas_file.path} (KAFKA_OPTS)"


def _security_problems(config: BrokerConfig) -> Iterator[Problem]:
    yield from authorizer_problems(config)
    if config.get_list("console.listeners"):
        from .console import console_problems  # most have none

        yield from console_problems(config)
    secured = [str(each) for each in config.listeners if each.security_protocol != "PLAINTEXT"]
    if config.num_workers > 1 and (has_authorizer(config) or secured):
        what = "authorizer.class.name" if has_authorizer(config) else " and ".join(secured)
        reason = f"several workers do not ask who their clients are, and {what} asks for that"
        yield Problem("num.workers", str(config.num_workers), reason, "1")
    if any(listener.security_protocol.startswith("SASL_") for listener in config.listeners):
        from .sasl import sasl_problems  # most have none

        yield from sasl_problems(config)
    if any(listener.security_protocol.endswith("SSL") for listener in config.listeners):
        from .tls import tls_problems  # most have none

        yield from tls_problems(config)


def _security_warnings(config: BrokerConfig) -> Iterator[Problem]:
    if any(listener.security_protocol.startswith("SASL_") for listener in config.listeners):
        from .sasl import sasl_warnings

        yield from sasl_warnings(config)


def _read_file(path: str | os.PathLike[str], warnings: list[str]) -> Settings:
    name = os.fspath(path)
    with open(path, "rb") as file:
        entries = parse_properties(file.read(), name)
    settings: Settings = {}
    for entry in entries:
        former = settings.get(entry.key)
        if former is not None:
            warnings.append(
                f"{name}:{entry.line}: {entry.key} is given again; the value at {former.origin} does not count"
            )
        settings[entry.key] = Setting(entry.value, f"{name}:{entry.line}")
    return settings


def _remark(key: str, setting: Setting, strict: bool, warnings: list[str], problems: list[Problem]) -> None:
    """Say what there is to say about a key that was given: unknown, of former versions, or without effect."""
    row = row_of(key)
    if row is None:
        reason = unknown_key_reason(key)
        if reason is None:
            return
        if strict:
            problems.append(Problem(key, None, reason, "keys that are known", setting.origin))
        else:
            warnings.append(f"{setting.origin}: {key}: {reason}; it has no effect")
    elif row.inert:
        warnings.append(f"{setting.origin}: {key} has no effect here: {row.inert}")
    elif row.replaced_by:
        warnings.append(
            f"{setting.origin}: {key} is a key of former versions; today it is {' and '.join(row.replaced_by)}"
        )
    elif row.removed:
        warnings.append(f"{setting.origin}: {key} is a key of former versions, which Apache Kafka 4 ignores")
    elif row.name in _CHECKED_CLASSES:
        if setting.text.strip() in FORMER_AUTHORIZERS:
            warnings.append(
                f"{setting.origin}: {key}: {setting.text.strip()} is a class of former versions; it is taken as"
                f" {STANDARD_AUTHORIZER}"
            )
    elif row.type is ConfigType.CLASS and setting.text.strip() != row.default:
        warnings.append(f"{setting.origin}: {key}: a Java class can not run here; it has no effect")


def _settle_node_id(settings: Settings, notices: list[str], problems: list[Problem]) -> None:
    """Make node.id and broker.id one: either gives the other; -1 asks for one that nobody chose."""
    node, broker = settings.get("node.id"), settings.get("broker.id")
    if node is None and broker is not None and broker.text.strip() == "-1":
        broker = _made_up_id(settings, broker, notices, problems)
    if node is not None and broker is not None and node.text.strip() != broker.text.strip():
        reason = "You must set `node.id` to the same value as `broker.id`."
        problems.append(Problem("node.id", node.text, reason, broker.text, node.origin, sentence=reason))
    settings["node.id"] = node or broker or Setting(str(DEFAULT_NODE_ID), "default")
    settings["broker.id"] = settings["node.id"]


def _made_up_id(settings: Settings, asked: Setting, notices: list[str], problems: list[Problem]) -> Setting | None:
    """The id after those that are reserved for people, as Kafka gave it to its first broker."""
    generate = settings.get("broker.id.generation.enable")
    if generate is not None and generate.text.strip().lower() == "false":
        allowed = "0 or more, or broker.id.generation.enable=true"
        problems.append(Problem("broker.id", "-1", "no id is made up", allowed, asked.origin))
        return None
    reserved = settings.get("reserved.broker.max.id", Setting("1000", "")).text.strip()
    if not reserved.isdecimal():  # its own row says what is wrong
        return None
    notices.append(f"broker.id=-1: the node id is {int(reserved) + 1}")
    return Setting(str(int(reserved) + 1), asked.origin)


def _read_values(settings: Settings, warnings: list[str], problems: list[Problem]) -> dict[str, ConfigValue]:
    """Typed values of all keys of the table; settings with a listener's prefix are checked, too."""
    values: dict[str, ConfigValue] = {key: row.default for key, row in BROKER_KEYS.items()}
    for key, setting in settings.items():
        row = row_of(key)
        if row is None or key == "broker.id":  # which is node.id
            continue
        value = row.read(setting.text)
        if isinstance(value, Problem):
            problems.append(_placed(value, key, setting))
        elif key in values:
            values[key] = value
            given = parse(row.type, setting.text)
            if isinstance(value, tuple) and isinstance(given, tuple) and len(value) < len(given):
                taken = "" if setting.given else f": it is taken as {','.join(value)}"
                warnings.append(f"{setting.origin}: {key}={setting.shown} has the same twice{taken}")
    values["broker.id"] = values["node.id"]
    return values


def _check_roles(
    settings: Settings, values: dict[str, ConfigValue], notices: list[str], problems: list[Problem]
) -> None:
    """The process must be a broker. It is always its own controller, so one elsewhere is not listened to."""
    roles = values["process.roles"]
    setting = settings.get("process.roles")
    if setting is None or not isinstance(roles, tuple):
        return
    if "broker" not in roles:
        reason = "a controller without a broker is not served"
        problems.append(Problem("process.roles", setting.text, reason, "broker or broker,controller", setting.origin))
    elif "controller" not in roles:
        notices.append("process.roles has no controller: the broker keeps the metadata itself and joins no cluster")


def _placed(problem: Problem, key: str, setting: Setting) -> Problem:
    if setting.given:  # neither as its value nor within a sentence: it may be a secret
        reason = "what config providers have put there is not allowed"
        return Problem(key, setting.given, reason, problem.allowed, setting.origin)
    return Problem(key, problem.value, problem.reason, problem.allowed, setting.origin, problem.sentence)


def _with_origin(problem: Problem, settings: Settings) -> Problem:
    setting = settings.get(problem.key)
    return _placed(problem, problem.key, setting) if setting is not None else problem
