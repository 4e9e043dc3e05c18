"""Decode values with schemas of a registry (Confluent's API, which other registries have too).

Such a value begins with a zero byte and the schema id, four bytes; Avro or JSON follows.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from pybroker.cli.client.avro import AvroError, AvroSchema, Read, parse_schema
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.schema_registry import RegistryError, SchemaRegistry

_HEAD_BYTES = 5
_NOT_FOUND = 404
_DEEPEST_REFERENCE = 20

Decode = Callable[[bytes], Any]


class Registry:
    """A registry at a URL, which may contain user and password. Each schema is requested once."""

    def __init__(self, url: str, timeout_s: float) -> None:
        try:
            self._registry = SchemaRegistry(url, timeout_s)
        except ValueError:
            raise UsageError("--schema-registry is not a URL such as http://localhost:8081") from None
        self._decoders: dict[int, Decode | None] = {}
        self._has_reported = False

    def text(self, data: bytes) -> bytes | None:
        """Return the value as JSON, or None if it has no schema id, or an unknown one.

        An unknown id is reported once on standard error. Raises CommandError.
        """
        if len(data) < _HEAD_BYTES or data[0]:
            return None
        number = int.from_bytes(data[1:_HEAD_BYTES], "big")
        try:
            if number not in self._decoders:
                self._decoders[number] = self._decoder(number)
            decode = self._decoders[number]
            return None if decode is None else _as_json(decode(data[_HEAD_BYTES:]))
        except RegistryError as error:
            raise CommandError(str(error)) from None
        except (AvroError, ValueError, RecursionError) as error:
            raise CommandError(f"schema {number}: {error}") from None

    def _decoder(self, number: int) -> Decode | None:
        try:
            found = self._ask("schemas", "ids", str(number))
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            if not self._has_reported:
                self._has_reported = True
                print(f"{error}: such values are shown as they are", file=sys.stderr, flush=True)
            return None
        kind = found.get("schemaType", "AVRO")
        if kind == "JSON":
            return json.loads
        if kind != "AVRO":
            raise CommandError(f"schema {number} is {kind}: only AVRO and JSON are read")
        return self._avro(found, {}, 0).decode

    def _avro(self, found: dict[str, Any], names: dict[str, Read], depth: int) -> AvroSchema:
        if depth > _DEEPEST_REFERENCE:
            raise AvroError("schemas refer to each other without an end")
        try:
            others = [(str(each["subject"]), str(each["version"])) for each in found.get("references") or []]
        except (KeyError, TypeError):
            raise AvroError("it refers to something that has no subject and version") from None
        for subject, version in others:
            self._avro(self._ask("subjects", subject, "versions", version), names, depth + 1)
        return parse_schema(found["schema"], names)

    def _ask(self, *path: str) -> dict[str, Any]:
        found = self._registry.ask(*path)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise RegistryError(f"{'/'.join((self._registry.url, *path))}: the answer is not a schema")
        return found


def _as_json(value: Any) -> bytes:
    """Return valid JSON, also for numbers that JSON cannot represent, and for lone surrogates."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_with_names(value), ensure_ascii=False)
    return text.encode(errors="backslashreplace")


def _with_names(value: Any) -> Any:
    """Replace these numbers by "NaN", "Infinity" and "-Infinity", as Avro's JSON encoding does."""
    if isinstance(value, dict):
        return {key: _with_names(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_names(each) for each in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
