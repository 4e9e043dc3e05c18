"""Generate the specification of `pybroker pipeline init`: a small one that runs, with all other keys as comments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin

from pybroker.pipeline.json_schema import FILE
from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.values import Key, alternatives, keys

_HEAD = """# yaml-language-server: $schema={schema}
# A data pipeline of pybroker: topics in, files or topics out.
#   pybroker pipeline check FILE     is it right?
#   pybroker pipeline run FILE       until its streams end, or SIGTERM
# Keys in comments are optional, with their default or an example.
# ${{NAME}} and ${{NAME:-default}} are environment variables.
"""

# Optional keys that even a small pipeline needs
_SHOWN = {"topics", "path"}

_WIDTH = 44


def template() -> str:
    """Return the specification's text."""
    return _HEAD.format(schema=FILE.as_uri()) + "".join(f"{line}\n" for line in _lines(Pipeline, 0, comment=False))


def _lines(kind: Any, depth: int, *, comment: bool) -> Iterator[str]:
    for one in keys(kind):
        hidden = comment or not (one.required or one.name in _SHOWN)
        if depth == 0:
            yield ""
        mapped, below = _below(one.kind)
        if below is None:
            yield _line(f"{one.name}: {_value(one)}", one.help, depth, hidden)
            for other in filter(is_dataclass, alternatives(one.kind)):
                yield _line(f"{one.name}:", "or a mapping", depth, hidden=True)
                yield from _lines(other, depth + 1, comment=True)
            continue
        yield _line(f"{one.name}:", one.help, depth, hidden)
        if mapped:
            yield _line(f"{one.example}:", "", depth + 1, hidden)
        yield from _lines(below, depth + 1 + mapped, comment=hidden)


def _below(kind: Any) -> tuple[bool, Any]:
    """Return whether a kind is a mapping from names, and the dataclass of its keys, if any."""
    first = alternatives(kind)[0]
    if is_dataclass(first):
        return False, first
    if get_origin(first) is dict and is_dataclass(get_args(first)[1]):
        return True, get_args(first)[1]
    return False, None


def _value(one: Key) -> str:
    value = one.example if one.example is not None else one.default
    if isinstance(value, str):
        return value if not set(value) & set(":{}[],&*#?|<>=!%@`'\"") else json.dumps(value)
    return "" if value is None else json.dumps(value)


def _line(text: str, help: str, depth: int, hidden: bool) -> str:
    text = f"{'  ' * depth}{'# ' if hidden else ''}{text}"
    return f"{text:<{_WIDTH}}  # {help}" if help else text
