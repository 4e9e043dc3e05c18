"""An HTTP server for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.support.brokers import HOST


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a server that answers with `handler` and logs nothing."""
    server = HTTPServer((HOST, 0), type(handler.__name__, (handler,), {"log_message": lambda *_: None}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
