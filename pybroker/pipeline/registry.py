"""A Confluent schema registry, asked for the versions of a subject: two GETs, answered as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

_TIMEOUT_S = 10
#: An answer, in bytes.
_MOST_BYTES = 16 << 20


class RegistryError(Exception):
    """The registry does not answer, or not as one does; in one line."""


def schemas_of(registry: str, subject: str) -> Mapping[int, str]:
    """Return the Avro schemas of all versions of a subject by their ids, the newest last.

    Names and passwords may stand in the address. Errors: RegistryError.
    """
    below = f"subjects/{quote(subject, safe='')}/versions"
    versions = _get(registry, below)
    schemas: dict[int, str] = {}
    for version in versions if isinstance(versions, list) else []:
        told = _get(registry, f"{below}/{quote(str(version), safe='')}")
        try:
            number, schema, kind = told["id"], told["schema"], told.get("schemaType", "AVRO")
        except (TypeError, KeyError, AttributeError):
            raise RegistryError(f"{_shown(registry)}: version {version} of {subject} has no id and schema") from None
        if kind != "AVRO" or told.get("references"):
            problem = f"is {kind}, not Avro" if kind != "AVRO" else "refers to other subjects, which is not known here"
            raise RegistryError(f"{_shown(registry)}: version {version} of {subject} {problem}")
        schemas.pop(number, None)
        schemas[int(number)] = str(schema)
    if not schemas:
        raise RegistryError(f"{_shown(registry)}: there are no versions of {subject}")
    return schemas


def _get(registry: str, path: str) -> Any:
    parts = urlsplit(registry)
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    url = f"{_shown(registry).rstrip('/')}/{path}"
    try:
        with urlopen(Request(url, headers=headers), timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError) as error:
        told = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise RegistryError(f"{url}: {' '.join(str(told).split())}") from error


def _shown(registry: str) -> str:
    """The address without name and password."""
    parts = urlsplit(registry)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
