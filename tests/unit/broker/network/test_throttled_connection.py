"""A throttled connection: its later requests, and its end."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE as ECHO
from protocol.schema import Struct
from tests.support.network import Link, request_frame


@pytest.fixture
def started() -> list[bytes]:
    return []


@pytest.fixture
def link(started: list[bytes]) -> Link:
    def answer(ctx: Any, request: Struct) -> Struct:
        started.append(bytes(request.auth_bytes))
        return ECHO.response(auth_bytes=request.auth_bytes)

    return Link({ECHO: answer})


def echo(number: int, data: bytes = b"") -> bytes:
    return request_frame(ECHO, 2, number, auth_bytes=data)


def test_the_rest_of_a_large_frame_is_read_when_servable(link: Link, started: list[bytes]) -> None:
    """Until then it stays at the client."""
    frame = echo(1, bytes(400_000))
    link.receive(frame[:300_000])
    link.connection.throttle(1000)
    assert not link.transport.reading
    link.loop.advance(1000)
    assert link.transport.reading
    link.receive(frame[300_000:])

    assert started == [bytes(400_000)]


def test_throttled_client_that_resets_is_closed_at_once(link: Link) -> None:
    """Although a frame had begun: the socket does not wait for the quota."""
    link.receive(echo(1) + echo(2, bytes(400_000))[:300_000])
    link.connection.throttle(1000)
    link.connection.on_hang_up()
    assert link.transport.reading
    link.connection.on_eof()

    assert link.transport.closed == "when sent"
    assert list(link.server.connections) == []
    assert link.server.held_bytes == 0


def test_throttled_client_that_closes_gets_its_responses(link: Link) -> None:
    """Its EOF may arrive before it has read them."""
    link.transport.blocked = True
    link.receive(echo(1, bytes(2_000_000)))
    link.connection.throttle(1000)
    link.connection.on_eof()
    assert link.transport.closed is None
    link.transport.unblock()

    assert link.transport.closed == "when sent"
    assert [number for number, _ in link.answers((ECHO, 2))] == [1]


@pytest.mark.parametrize("size", [100, 400_000])
def test_requests_of_a_throttled_client_that_closed_are_served(link: Link, started: list[bytes], size: int) -> None:
    """Produce with acks=0, for example, must not be lost."""
    frame = echo(1, bytes(size))
    link.receive(frame[:-10])
    link.connection.throttle(1000)
    link.connection.on_hang_up()
    link.receive(frame[-10:])
    link.connection.on_eof()
    link.loop.advance(999)
    assert started == []
    assert link.transport.closed is None
    link.loop.advance(1)

    assert started == [bytes(size)]
    assert link.transport.closed == "when sent"
