"""Config providers (KIP-297, KIP-421): `${file:/etc/secrets:key}` in a value is replaced by the value at that place.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/pybroker
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.env.param.allowlist.pattern=BROKER_.*

Kafka's own providers are supported, by their class names. Variables in the inserted text are not replaced. As in Kafka,
a variable of an unnamed provider is left as it is. Unlike in Kafka, a missing value is an error: otherwise the variable
itself would become the password.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from pybroker.text_files import UnreadableText, utf8_text

from .errors import ConfigError, Problem
from .properties import parse_properties
from .setting import Setting, Settings
from .values import ConfigType, parse

_PREFIX = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")

#: (path, key) -> the value, or None if it is missing. Raises _Refused.
_Provider = Callable[[str, str], "str | None"]


class _Refused(Exception):
    """Why a provider rejects a request. The message has no secrets."""


def replace_variables(settings: Settings, environ: Mapping[str, str]) -> list[Problem]:
    """Replace the variables in all values, and return the problems.

    The settings keep the original text, to be shown.
    """
    providers, problems = _providers(settings, environ)
    if not providers:
        return problems
    for key, setting in settings.items():
        try:
            text = _VARIABLE.sub(lambda variable: _found(providers, variable), setting.text)
        except _Refused as refused:
            problems.append(Problem(key, setting.text, str(refused), "", setting.origin))
            continue
        if text != setting.text:
            settings[key] = Setting(text, setting.origin, given=setting.text)
    return problems


def _found(providers: Mapping[str, _Provider], variable: re.Match[str]) -> str:
    provider = providers.get(variable[1])
    if provider is None:
        return variable[0]
    value = provider(variable[2] or "", variable[3])
    if value is None:
        raise _Refused(f"{variable[0]} does not exist")
    return value


def _providers(settings: Settings, environ: Mapping[str, str]) -> tuple[dict[str, _Provider], list[Problem]]:
    """Return the configured providers by name, and the problems."""
    named = settings.get(_PREFIX)
    names = parse(ConfigType.LIST, named.text) if named is not None else ()
    assert isinstance(names, tuple)
    classes: dict[str, Callable[[Mapping[str, str]], _Provider]] = {
        f"{_PACKAGE}FileConfigProvider": _FileProvider,
        f"{_PACKAGE}DirectoryConfigProvider": _DirectoryProvider,
        f"{_PACKAGE}EnvVarConfigProvider": lambda parameters: _EnvironProvider(parameters, environ),
    }
    providers: dict[str, _Provider] = {}
    problems = []
    for name in filter(None, names):
        key = f"{_PREFIX}.{name}.class"
        given = settings.get(key, Setting("", named.origin if named is not None else ""))
        make = classes.get(given.text.strip())
        prefix = f"{_PREFIX}.{name}.param."
        parameters = {each.removeprefix(prefix): s.text for each, s in settings.items() if each.startswith(prefix)}
        if make is None:
            reason = "not a supported config provider" if given.text else "is missing"
            problems.append(Problem(key, given.text, reason, ", ".join(classes), given.origin))
            continue
        try:
            providers[name] = make(parameters)
        except _Refused as refused:
            problems.append(Problem(f"{prefix}*", None, str(refused), "", given.origin))
    return providers, problems


class _Paths:
    """The paths that a provider may read: those below one of `allowed.paths`, or all if it is not set."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = [each.strip() for each in parameters.get("allowed.paths", "").split(",") if each.strip()]
        for path in given:
            if not os.path.isabs(path) or not os.path.exists(path):
                raise _Refused(f"allowed.paths: {path} is not an absolute path, or does not exist")
        self._allowed = [os.path.realpath(path) for path in given]

    def check(self, path: str) -> None:
        """Raise _Refused unless the path, with links resolved, is allowed."""
        real = os.path.realpath(path)
        if self._allowed and all(os.path.commonpath([real, each]) != each for each in self._allowed):
            raise _Refused(f"{path} is not below one of allowed.paths")


class _FileProvider:
    """Reads properties files."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._paths = _Paths(parameters)
        self._read: dict[str, dict[str, str]] = {}

    def __call__(self, path: str, key: str) -> str | None:
        self._paths.check(path)
        if path not in self._read:
            try:
                entries = parse_properties(_content(path), path, is_utf8=True)  # as Kafka's provider
            except ConfigError as error:
                (problem,) = error.problems  # its line is not shown: it may be the secret
                raise _Refused(f"{problem.origin} cannot be read") from None
            self._read[path] = {entry.key: entry.value for entry in entries}
        return self._read[path].get(key)


class _DirectoryProvider:
    """Reads files of a directory, each with one value, as containers mount secrets."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._paths = _Paths(parameters)

    def __call__(self, path: str, key: str) -> str | None:
        file = Path(path, key)
        if key != file.name or not file.exists():
            return None
        self._paths.check(str(file))
        try:
            return utf8_text(_content(str(file)))
        except UnreadableText as error:
            raise _Refused(f"{file}:{error.line}: {error.reason}") from None


class _EnvironProvider:
    """Reads environment variables whose names match `allowlist.pattern`."""

    def __init__(self, parameters: Mapping[str, str], environ: Mapping[str, str]) -> None:
        try:
            self._allowed = re.compile(parameters.get("allowlist.pattern", ".*"))
        except re.error as error:
            raise _Refused(f"allowlist.pattern: {error}") from None
        self._environ = environ

    def __call__(self, path: str, key: str) -> str | None:
        if path:
            raise _Refused(f"the environment has no paths such as {path}")
        return self._environ.get(key) if self._allowed.fullmatch(key) else None


def _content(path: str) -> bytes:
    """Return the bytes of a regular file. Others could block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _Refused(f"{path} is not a regular file")
            return file.read()
    except OSError as error:
        raise _Refused(f"{path}: {error.strerror}") from None
