"""A connection whose client has taken more than its quota: what it sends until it is served again, and its end."""

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
    """Until then it stays with the client."""
    frame = echo(1, bytes(400_000))
    link.receive(frame[:300_000])
    link.connection.throttle(1000)
    assert not link.transport.reading
    link.loop.advance(1000)
    assert link.transport.reading
    link.receive(frame[300_000:])

    assert started == [bytes(400_000)]


def test_a_throttled_client_that_hangs_up_is_gone_at_once(link: Link) -> None:
    """Nothing of it is left to be served, though a frame had begun: its socket does not wait for the quota's sake."""
    link.receive(echo(1) + echo(2, bytes(400_000))[:300_000])
    link.connection.throttle(1000)
    link.connection.on_hang_up()
    assert link.transport.reading
    link.connection.on_eof()

    assert link.transport.closed == "when sent"
    assert list(link.server.connections) == []
    assert link.server.held_bytes == 0


def test_a_throttled_client_that_closes_gets_its_responses_first(link: Link) -> None:
    """The end of what it sends may come before it has taken them."""
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
    """As records that want no answer: they are not lost."""
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
