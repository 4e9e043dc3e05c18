"""From what YAML gives to frozen dataclasses: unknown keys, missing keys and wrong kinds are errors with a path."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class SpecError(Exception):
    """What is wrong, at the path of a key such as sources.access.topics."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


def substituted(value: object, environ: Mapping[str, str], path: str = "") -> object:
    """Return `value` with ${NAME} and ${NAME:-default} in its texts replaced."""

    def variable(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name not in environ and default is None:
            raise SpecError(path, f"the environment variable {name} is not set")
        return environ.get(name, default or "")

    match value:
        case str():
            return _VARIABLE.sub(variable, value)
        case dict():
            return {key: substituted(item, environ, _below(path, key)) for key, item in value.items()}
        case list():
            return [substituted(item, environ, path) for item in value]
    return value


def build(kind: type[T], value: object, path: str = "", *, names: Mapping[str, str] | None = None) -> T:
    """Return `value` as an instance of the dataclass `kind`; `names` are keys that Python cannot spell as fields."""
    made: T = _made(kind, value, path, names or {})
    return made


def _made(kind: Any, value: object, path: str, names: Mapping[str, str]) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        present = [argument for argument in arguments if argument is not types.NoneType]
        return None if value is None else _made(present[0], value, path, names)
    if origin is Literal:
        if value not in arguments:
            allowed = ", ".join(str(argument) for argument in arguments)
            raise SpecError(path, f"{value!r} is not one of: {allowed}{_near(str(value), map(str, arguments))}")
        return value
    if origin is dict:
        return {
            str(key): _made(arguments[1], item, _below(path, key), names) for key, item in _mapping(value, path).items()
        }
    if origin is list:
        if not isinstance(value, list):
            raise SpecError(path, f"{value!r} is not a list")
        return [_made(arguments[0], item, f"{path}[{index}]", names) for index, item in enumerate(value)]
    if is_dataclass(kind):
        return _dataclass(kind, value, path, names)
    if kind is str and isinstance(value, int | float | bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SpecError(path, f"{value!r} is not {'a text' if kind is str else 'a whole number'}")
    return value


def _dataclass(kind: Any, value: object, path: str, names: Mapping[str, str]) -> Any:
    given = _mapping(value, path)
    hints = get_type_hints(kind)
    spelt = {name: key for key, name in names.items()}
    known = {spelt.get(one.name, one.name): one for one in fields(kind)}
    for key in given:
        if key not in known:
            hint = _near(str(key), known) or "; known are: " + ", ".join(known)
            raise SpecError(_below(path, key), f"unknown key{hint}")
    for key, one in known.items():
        if key not in given and one.default is MISSING and one.default_factory is MISSING:
            raise SpecError(_below(path, key), "is missing")
    values = {
        one.name: _made(hints[one.name], given[key], _below(path, key), names)
        for key, one in known.items()
        if key in given
    }
    try:
        return kind(**values)
    except SpecError as error:
        raise SpecError(_below(path, error.path), error.problem) from None


def _mapping(value: object, path: str) -> dict[Any, object]:
    if not isinstance(value, dict):
        raise SpecError(path, f"{value!r} is not a mapping")
    return value


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _near(text: str, known: Any) -> str:
    close = difflib.get_close_matches(text, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
