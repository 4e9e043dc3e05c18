"""Generate the JSON Schema of specifications, for editors, from the same keys as the checker.

python -m pybroker.pipeline.json_schema      # writes pybroker/pipeline/spec.schema.json
"""

from __future__ import annotations

import json
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.values import Key, alternatives, keys

FILE = Path(__file__).with_name("spec.schema.json")

# An environment variable may replace any scalar
_VARIABLE = {"type": "string", "pattern": r"\$\{\w+(:-[^}]*)?\}"}


def json_schema() -> dict[str, Any]:
    """Return the schema of a whole specification."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A data pipeline of pybroker",
        **_object(Pipeline),
    }


def _object(kind: Any) -> dict[str, Any]:
    properties = {one.name: _property(one) for one in keys(kind)}
    required = [one.name for one in keys(kind) if one.required]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _property(one: Key) -> dict[str, Any]:
    described = {"description": one.help}
    if one.default is not MISSING and one.default is not None and not is_dataclass(one.default):
        described["default"] = one.default
    return {**_schema(one.kind), **described}


def _schema(kind: Any) -> dict[str, Any]:
    kinds = [one for one in alternatives(kind) if one is not NoneType]
    if len(kinds) > 1:
        return {"anyOf": [_schema(one) for one in kinds]}
    kind = kinds[0]
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _object(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if kind is int:
        return {"anyOf": [{"type": "integer"}, _VARIABLE]}
    return {"type": ["string", "number", "boolean"]}


if __name__ == "__main__":
    FILE.write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")
