"""Read a broker's JSON pages at its metrics.listeners, for data that Kafka's protocol has no fields for."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from pybroker.cli.client.errors import CommandError, UsageError

_MOST_BYTES = 64 << 20


def read_json_page(url: str, path: str, timeout_s: float, *, option: str, query: str = "") -> dict[str, Any]:
    """Return the object at `path` of a broker's metrics listener.

    Raises UsageError for a bad URL, CommandError if the page cannot be read, is too large or is not a JSON object.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{option}: {url!r} is not a URL such as http://localhost:9404")
    where = f"{url.rstrip('/').removesuffix(path)}{path}"
    try:
        with urllib.request.urlopen(f"{where}{query}", timeout=timeout_s) as answer:
            data = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        said = error.read(200).decode(errors="replace").strip().partition("\n")[0]
        raise CommandError(f"{where}: {error.code} {said}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise CommandError(f"{where}: {getattr(error, 'reason', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise CommandError(f"{where}: the page is larger than {_MOST_BYTES >> 20} MiB")
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise TypeError
        return found
    except (ValueError, TypeError, RecursionError):
        raise unexpected_page(url, path) from None


def unexpected_page(url: str, path: str) -> CommandError:
    """Return the error for a page that is not a JSON object with the expected fields."""
    return CommandError(f"{url.rstrip('/').removesuffix(path)}{path}: this is not an answer of pybroker")
