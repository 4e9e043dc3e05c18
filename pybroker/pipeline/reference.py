"""Generate the reference page of the keys of a specification, from the same keys as the checker.

python -m pybroker.pipeline.reference > docs/generated/pipeline.md
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass
from typing import Any, Literal, get_args, get_origin

from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.values import Key, alternatives, keys

_HEAD = """# Keys of a pipeline's specification

Written by `python -m pybroker.pipeline.reference`. [Pipelines](../reference/pipeline.md) shows them together. NAME
stands for a name of your choice. A default is in brackets.

"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(_rows(Pipeline, ""))


def _rows(kind: Any, above: str) -> Iterator[str]:
    for one in keys(kind):
        path = f"{above}{one.name}"
        default = _default(one)
        yield f"- `{path}`{default and f' [{default}]'}: {_text(one)}\n"
        for below, place in _nested(one.kind):
            yield from _rows(below, f"{path}.{place}")


def _nested(kind: Any) -> Iterator[tuple[Any, str]]:
    """Yield the dataclasses within a kind, and the text between the key and their keys."""
    for one in alternatives(kind):
        if is_dataclass(one):
            yield one, ""
        elif get_origin(one) is dict and is_dataclass(get_args(one)[1]):
            yield get_args(one)[1], "NAME."


def _default(one: Key) -> str:
    if one.default is MISSING:
        return "**required**"
    if one.default is None or one.default in ([], {}) or is_dataclass(one.default):
        return ""
    return f"`{one.default if isinstance(one.default, str) else json.dumps(one.default)}`"


def _text(one: Key) -> str:
    parts = alternatives(one.kind)
    words = [str(word) for part in parts if get_origin(part) is Literal for word in get_args(part)]
    allowed = f" ({', '.join(f'`{word}`' for word in words)})" if words else ""
    several = " (a list)" if any(get_origin(part) is list for part in parts) else ""
    return one.help + allowed + several


if __name__ == "__main__":
    print(page(), end="")
