"""A client of schema registries with Confluent's HTTP interface: GET requests, JSON responses."""

from __future__ import annotations

import base64
import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

#: The largest response.
_MOST_BYTES = 16 << 20


class RegistryError(Exception):
    """The registry does not respond, or not as expected; the text is one line. `status`: the HTTP status, if any."""

    def __init__(self, line: str, status: int | None = None) -> None:
        super().__init__(line)
        self.status = status


class SchemaRegistry:
    """A registry at a URL, which may contain user and password. Raises ValueError for an invalid URL."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        ):  # `port` may raise ValueError, too
            raise ValueError(url)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        #: The URL without user and password.
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._timeout_s = timeout_s
        self._opener = _opener()

    def ask(self, *path: str) -> Any:
        """Return the response for a path of these parts. Raises RegistryError."""
        url = "/".join([self.url, *(quote(name, safe="") for name in path)])
        try:
            with self._opener.open(Request(url, headers=self._headers), timeout=self._timeout_s) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except HTTPError as error:
            error.close()
            raise RegistryError(f"{url}: {error.code} {error.reason}", error.code) from None
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise RegistryError(f"{url}: {' '.join(reason.split())}") from None


class _NoRedirection(HTTPRedirectHandler):
    """Follows no redirection, so that the password goes to no other address."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirection itself is the response."""


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirection)
