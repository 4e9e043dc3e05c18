"""Build frozen dataclasses from parsed YAML. Unknown keys, missing keys and wrong types are errors with a path.

Each key is described once, by `key` in its dataclass. The checker here, the JSON Schema, the reference page and the
specification that `init` writes are all generated from that.
"""

from __future__ import annotations

import copy
import difflib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class SpecError(Exception):
    """An error in a specification, at the path of a key such as sources.access.topics."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a specification: its YAML name, type, default, example and a one-sentence description."""

    name: str
    kind: Any
    default: Any  # MISSING: the key is required
    help: str
    example: Any
    field: str

    @property
    def required(self) -> bool:
        return self.default is MISSING


def key(help: str, default: Any = MISSING, *, spelt: str | None = None, example: Any = None) -> Any:
    """Describe a key of a dataclass; `spelt` is its name in YAML where Python cannot spell it, `example` a value."""
    described = {"help": help, "spelt": spelt, "example": example}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: copy.deepcopy(default), metadata=described)
    if isinstance(default, type):
        return field(default_factory=default, metadata=described)
    return field(default=default, metadata=described)


def keys(kind: Any) -> Iterator[Key]:
    """Yield the keys of a dataclass in their order."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        described = one.metadata
        name = described["spelt"] or one.name
        yield Key(name, hints[one.name], _default(one), described["help"], described["example"], one.name)


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


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
            return [substituted(item, environ, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def build(kind: type[T], value: object) -> T:
    """Return `value` as an instance of the dataclass `kind`."""
    made: T = _made(kind, value, "")
    return made


def alternatives(kind: Any) -> tuple[Any, ...]:
    """Return what a value of `kind` may be: the members of a union, else `kind` alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _made(kind: Any, value: object, path: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, path)
    if origin is Literal:
        if value not in arguments:
            allowed = ", ".join(str(argument) for argument in arguments)
            raise SpecError(path, f"{value!r} is not one of: {allowed}{near(value, map(str, arguments))}")
        return value
    if origin is dict:
        mapping = _mapping(value, path).items()
        return {
            _made(arguments[0], name, path): _made(arguments[1], item, _below(path, name)) for name, item in mapping
        }
    if origin is list:
        if not isinstance(value, list):
            raise SpecError(path, f"{value!r} is not a list")
        return [_made(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value)]
    if is_dataclass(kind):
        return _dataclass(kind, value, path)
    return _scalar(kind, value, path)


def _one_of(kinds: tuple[Any, ...], value: object, path: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    present = [kind for kind in kinds if kind is not types.NoneType]
    fitting = [kind for kind in present if isinstance(value, _yaml_type(kind))]
    return _made((fitting or present)[0], value, path)


def _yaml_type(kind: Any) -> type:
    """Return the type that YAML has for values of `kind`."""
    origin = get_origin(kind) or kind
    if origin is dict or is_dataclass(kind):
        return dict
    return str if origin is Literal else origin


def _scalar(kind: Any, value: object, path: str) -> Any:
    if kind is str and isinstance(value, int | float | bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind is int and isinstance(value, str) and value.isdecimal():  # from an environment variable
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SpecError(path, f"{value!r} is not {'a text' if kind is str else 'a whole number'}")
    return value


def _dataclass(kind: Any, value: object, path: str) -> Any:
    given = _mapping(value, path)
    known = {one.name: one for one in keys(kind)}
    for name in given:
        if name not in known:
            hint = near(name, known) or "; known are: " + ", ".join(known)
            raise SpecError(_below(path, name), f"unknown key{hint}")
    for name, one in known.items():
        if name not in given and one.required:
            raise SpecError(_below(path, name), "is missing")
    values = {
        one.field: _made(one.kind, given[name], _below(path, name)) for name, one in known.items() if name in given
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
    return f"{path}.{key}" if path and key != "" else path or str(key)


def near(text: object, known: Iterable[str]) -> str:
    """Return a question for the nearest of the known names, or nothing."""
    close = difflib.get_close_matches(str(text), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
