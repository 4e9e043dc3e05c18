"""Schemas of a registry (Confluent's interface, which others have, too), and values that were written with them.

Such a value begins with a zero byte and the schema's id, four bytes; Avro or JSON follows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from pybroker.cli.client.avro import AvroError, AvroSchema, Read, parse_schema
from pybroker.cli.client.errors import CommandError, UsageError

_HEAD_BYTES = 5
_LARGEST_ANSWER = 16 << 20
_DEEPEST_REFERENCE = 20

Decode = Callable[[bytes], Any]


class Registry:
    """A registry at a URL; user and password may stand in it. Each schema is asked for once."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--schema-registry: {url!r} is no URL such as http://localhost:8081")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            told = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(told).decode()}"
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._timeout_s = timeout_s
        self._decoders: dict[int, Decode] = {}

    def text(self, data: bytes) -> bytes | None:
        """The value as JSON; None where it has no schema's id in front. Raises CommandError."""
        if len(data) < _HEAD_BYTES or data[0]:
            return None
        number = int.from_bytes(data[1:_HEAD_BYTES], "big")
        decode = self._decoders.get(number)
        if decode is None:
            decode = self._decoders[number] = self._decoder(number)
        try:
            value = decode(data[_HEAD_BYTES:])
        except (AvroError, ValueError, RecursionError) as error:
            raise CommandError(f"schema {number}: {error}") from None
        return json.dumps(value, ensure_ascii=False).encode()

    def _decoder(self, number: int) -> Decode:
        found = self._ask(f"/schemas/ids/{number}")
        kind = found.get("schemaType", "AVRO")
        if kind == "JSON":
            return json.loads
        if kind != "AVRO":
            raise CommandError(f"schema {number} is {kind}: only AVRO and JSON are read")
        try:
            return self._avro(found, {}, 0).decode
        except (AvroError, ValueError, RecursionError) as error:
            raise CommandError(f"schema {number}: {error}") from None

    def _avro(self, found: dict[str, Any], names: dict[str, Read], depth: int) -> AvroSchema:
        if depth > _DEEPEST_REFERENCE:
            raise AvroError("schemas refer to each other without an end")
        for each in found.get("references") or []:
            path = f"/subjects/{quote(str(each['subject']), safe='')}/versions/{each['version']}"
            self._avro(self._ask(path), names, depth + 1)
        return parse_schema(str(found.get("schema")), names)

    def _ask(self, path: str) -> dict[str, Any]:
        try:
            with urlopen(Request(self._url + path, headers=self._headers), timeout=self._timeout_s) as answer:
                found = json.loads(answer.read(_LARGEST_ANSWER))
        except HTTPError as error:
            raise CommandError(f"{self._url}{path}: {error.code} {error.reason}") from None
        except (URLError, OSError) as error:
            raise CommandError(f"{self._url}: {getattr(error, 'reason', error)}") from None
        except ValueError:
            raise CommandError(f"{self._url}{path}: the answer is no JSON") from None
        if not isinstance(found, dict):
            raise CommandError(f"{self._url}{path}: the answer is no schema")
        return found
