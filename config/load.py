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
    found = _Findings()
    settings = _read_file(path, found) if path is not None else {}
    settings.update(read_environment(environ))
    settings.update({key: Setting(value, "--override") for key, value in overrides.items()})
    found.problems += fill_in(settings, environ)
    for key, setting in settings.items():
        _remark(key, setting, strict, found)
    translate(settings)
    _settle_node_id(settings, found)
    values = _read_values(settings, found)
    _check_roles(settings, values, found)
    listening = _check_together(settings, values, found)
    found.refuse_if_wrong()

    config = BrokerConfig(os.fspath(path) if path is not None else None, settings, values, listening)
    if "java.security.auth.login.config" in environ.get("KAFKA_OPTS", ""):
        from .jaas import jaas_file  # most have none

        config.jaas_file = jaas_file(environ)
    found.notices += _notices(config, settings)
    if to_serve:
        found.warnings += (str(_with_origin(each, settings)) for each in _security_warnings(config))
        found.problems += (_with_origin(each, settings) for each in _security_problems(config))
        found.refuse_if_wrong()
    config.warnings, config.notices = tuple(found.warnings), tuple(found.notices)
    try:
        config.declared_topics = declared_topics(config.values)
    except ConfigError as error:
        raise ConfigError(*(_with_origin(problem, settings) for problem in error.problems)) from None
    return config


class _Findings:
    """What there is to say of a configuration. `notices`: in order, but may surprise; `problems`: it is refused."""

    __slots__ = ("notices", "problems", "warnings")

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self.problems: list[Problem] = []

    def refuse_if_wrong(self) -> None:
        """Raises ConfigError with all problems, if there are any."""
        if self.problems:
            refused = ConfigError(*self.problems)
            refused.warnings = tuple(self.warnings)
            raise refused


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


def _read_file(path: str | os.PathLike[str], found: _Findings) -> Settings:
    name = os.fspath(path)
    with open(path, "rb") as file:
        entries = parse_properties(file.read(), name)
    settings: Settings = {}
    for entry in entries:
        former = settings.get(entry.key)
        if former is not None:
            found.warnings.append(
                f"{name}:{entry.line}: {entry.key} is given again; the value at {former.origin} does not count"
            )
        settings[entry.key] = Setting(entry.value, f"{name}:{entry.line}")
    return settings


def _remark(key: str, setting: Setting, strict: bool, found: _Findings) -> None:
    """Say what there is to say about a key that was given: unknown, of former versions, or without effect."""
    row = row_of(key)
    if row is None:
        reason = unknown_key_reason(key)
        if reason is None:
            return
        if strict:
            found.problems.append(Problem(key, None, reason, "keys that are known", setting.origin))
        else:
            found.warnings.append(f"{setting.origin}: {key}: {reason}; it has no effect")
    elif row.inert:
        found.warnings.append(f"{setting.origin}: {key} has no effect here: {row.inert}")
    elif row.replaced_by:
        found.warnings.append(
            f"{setting.origin}: {key} is a key of former versions; today it is {' and '.join(row.replaced_by)}"
        )
    elif row.removed:
        found.warnings.append(f"{setting.origin}: {key} is a key of former versions, which Apache Kafka 4 ignores")
    elif row.name in _CHECKED_CLASSES:
        if setting.text.strip() in FORMER_AUTHORIZERS:
            found.warnings.append(
                f"{setting.origin}: {key}: {setting.text.strip()} is a class of former versions; it is taken as"
                f" {STANDARD_AUTHORIZER}"
            )
    elif row.type is ConfigType.CLASS and setting.text.strip() != row.default:
        found.warnings.append(f"{setting.origin}: {key}: a Java class can not run here; it has no effect")


def _settle_node_id(settings: Settings, found: _Findings) -> None:
    """Make node.id and broker.id one: either gives the other; -1 asks for one that nobody chose."""
    node, broker = settings.get("node.id"), settings.get("broker.id")
    if node is None and broker is not None and broker.text.strip() == "-1":
        broker = _made_up_id(settings, broker, found)
    if node is not None and broker is not None and node.text.strip() != broker.text.strip():
        reason = "You must set `node.id` to the same value as `broker.id`."
        found.problems.append(Problem("node.id", node.text, reason, broker.text, node.origin, sentence=reason))
    settings["node.id"] = node or broker or Setting(str(DEFAULT_NODE_ID), "default")
    settings["broker.id"] = settings["node.id"]


def _made_up_id(settings: Settings, asked: Setting, found: _Findings) -> Setting | None:
    """The id after those that are reserved for people, as Kafka gave it to its first broker."""
    generate = settings.get("broker.id.generation.enable")
    if generate is not None and generate.text.strip().lower() == "false":
        allowed = "0 or more, or broker.id.generation.enable=true"
        found.problems.append(Problem("broker.id", "-1", "no id is made up", allowed, asked.origin))
        return None
    reserved = settings.get("reserved.broker.max.id", Setting("1000", "")).text.strip()
    if not reserved.isdecimal():  # its own row says what is wrong
        return None
    found.notices.append(f"broker.id=-1: the node id is {int(reserved) + 1}")
    return Setting(str(int(reserved) + 1), asked.origin)


def _read_values(settings: Settings, found: _Findings) -> dict[str, ConfigValue]:
    """Typed values of all keys of the table; settings with a listener's prefix are checked, too."""
    values: dict[str, ConfigValue] = {key: row.default for key, row in BROKER_KEYS.items()}
    for key, setting in settings.items():
        row = row_of(key)
        if row is None or key == "broker.id":  # which is node.id
            continue
        value = row.read(setting.text)
        if isinstance(value, Problem):
            found.problems.append(_placed(value, key, setting))
        elif key in values:
            values[key] = value
            given = parse(row.type, setting.text)
            if isinstance(value, tuple) and isinstance(given, tuple) and len(value) < len(given):
                taken = "" if setting.given else f": it is taken as {','.join(value)}"
                found.warnings.append(f"{setting.origin}: {key}={setting.shown} has the same twice{taken}")
    values["broker.id"] = values["node.id"]
    return values


def _check_roles(settings: Settings, values: dict[str, ConfigValue], found: _Findings) -> None:
    """The process must be a broker. It is always its own controller, so one elsewhere is not listened to."""
    roles = values["process.roles"]
    setting = settings.get("process.roles")
    if setting is None or not isinstance(roles, tuple):
        return
    if "broker" not in roles:
        reason = "a controller without a broker is not served"
        found.problems.append(
            Problem("process.roles", setting.text, reason, "broker or broker,controller", setting.origin)
        )
    elif "controller" not in roles:
        found.notices.append(
            "process.roles has no controller: the broker keeps the metadata itself and joins no cluster"
        )


def _check_together(settings: Settings, values: dict[str, ConfigValue], found: _Findings) -> Listening:
    """What keys say together: rules that several are under, and the listeners; none where one of their keys is wrong.

    A key whose value is wrong has its default in `values`: what follows from that alone is not told.
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
    if setting.given:  # neither as its value nor within a sentence: it may be a secret
        reason = "what config providers have put there is not allowed"
        return Problem(key, setting.given, reason, problem.allowed, setting.origin)
    return Problem(key, problem.value, problem.reason, problem.allowed, setting.origin, problem.sentence)


def _with_origin(problem: Problem, settings: Settings) -> Problem:
    setting = settings.get(problem.key)
    return _placed(problem, problem.key, setting) if setting is not None else problem
