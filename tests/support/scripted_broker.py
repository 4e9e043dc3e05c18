"""A server that gives one connection the answers of a test, for tests of clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from protocol.framing import frame
from protocol.headers import RequestHeader, decode_request_header, encode_response_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.schema import Api

Answer = Callable[[RequestHeader], bytes]
"""From the header of a request to the bytes that the server sends; none: it closes the connection."""


def answer(api: Api, **fields: object) -> Answer:
    """Answer a request, in its version, with these fields."""

    def encode(header: RequestHeader) -> bytes:
        body = api.response.encode(header.api_version, api.response(**fields))
        return frame(encode_response_header(api, header.api_version, header.correlation_id), body)

    return encode


def serves(*ranges: tuple[Api, int, int]) -> Answer:
    """Answer ApiVersions with these APIs, each with its first and last version."""
    keys = [ApiVersion(api_key=api.key, min_version=first, max_version=last) for api, first, last in ranges]
    return answer(API_VERSIONS, api_keys=keys)


def raw(data: bytes) -> Answer:
    """Answer with bytes as they are."""
    return lambda header: data


def silent(header: RequestHeader) -> bytes:
    """Hold the connection open until the client closes it."""
    raise _StaySilent


class _StaySilent(Exception):
    pass


@contextmanager
def scripted_broker(*scripts: tuple[Answer, ...]) -> Iterator[int]:
    """Yield the port of a server with one script for each connection. At its end the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        thread = threading.Thread(target=_serve, args=(listener, scripts))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, scripts: tuple[tuple[Answer, ...], ...]) -> None:
    for script in scripts:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with connection, suppress(OSError):
            _play(connection, script)


def _play(connection: socket.socket, script: tuple[Answer, ...]) -> None:
    connection.settimeout(60)
    for each in script:
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        request = connection.recv(size, socket.MSG_WAITALL)
        if not request:
            return
        try:
            connection.sendall(each(decode_request_header(request)))
        except _StaySilent:
            while connection.recv(1 << 16):
                pass
            return
