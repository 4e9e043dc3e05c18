"""A schema registry that redirects."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from pybroker.schema_registry import RegistryError, SchemaRegistry
from tests.support.http_server import http_server

asked: list[tuple[str, str | None]] = []


class RedirectingHandler(BaseHTTPRequestHandler):
    """Redirects each request."""

    def do_GET(self) -> None:
        asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def port() -> Iterator[int]:
    with http_server(RedirectingHandler) as address:
        yield int(address.rpartition(":")[2])


def test_redirection_is_not_followed(port: int) -> None:
    """It would receive the password."""
    with pytest.raises(RegistryError, match=f"http://127.0.0.1:{port}/a%2Fb/1: 302 Found") as error:
        SchemaRegistry(f"http://ann:secret@127.0.0.1:{port}/", 10).ask("a/b", "1")
    assert error.value.status == 302
    assert asked == [("/a%2Fb/1", "Basic YW5uOnNlY3JldA==")]
