"""Forwarded APIs with any RequestForwarder: that of a worker is one of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.requests.context import ClientConnection
from broker.requests.dispatcher import CloseConnection, Dispatcher, Waiting
from broker.requests.forwarding import ForwardedApi
from broker.requests.served_api import discover
from protocol.messages.create_topics import CREATE_TOPICS
from runtime.deferred import Deferred
from tests.support.network import request_frame

CONNECTION: Any = SimpleNamespace(listener_name="PLAINTEXT", principal="User:ANONYMOUS")


class ControllerForwarder:
    """A forwarder to another process, which the test plays."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[bytes, Deferred[bytes]]] = []

    def forward(self, connection: ClientConnection, frame: bytes) -> Deferred[bytes]:
        assert connection is CONNECTION
        self.forwarded.append((frame, Deferred()))
        return self.forwarded[-1][1]


def test_each_version_is_forwarded_undecoded() -> None:
    forwarder = ControllerForwarder()
    api = ForwardedApi(discover()[CREATE_TOPICS.key])
    api.load()
    dispatcher = Dispatcher({CREATE_TOPICS.key: api}, {"forwarder": forwarder})
    for version in api.served:
        frame = memoryview(request_frame(CREATE_TOPICS, version, 7, topics=[], timeout_ms=1))[4:]
        waiting = dispatcher.dispatch(CONNECTION, frame)
        assert isinstance(waiting, Waiting)
        sent, answered = forwarder.forwarded[-1]
        assert sent == bytes(frame)
        answered.resolve(b"answer %d" % version)
        assert dispatcher.finish(CONNECTION, waiting) == [b"answer %d" % version]


def test_process_that_cannot_be_reached_ends_the_connection() -> None:
    forwarder = ControllerForwarder()
    api = ForwardedApi(discover()[CREATE_TOPICS.key])
    api.load()
    dispatcher = Dispatcher({CREATE_TOPICS.key: api}, {"forwarder": forwarder})
    frame = memoryview(request_frame(CREATE_TOPICS, 7, 7, topics=[], timeout_ms=1))[4:]
    waiting = dispatcher.dispatch(CONNECTION, frame)
    assert isinstance(waiting, Waiting)
    forwarder.forwarded[-1][1].fail(CloseConnection("no controller"))
    with pytest.raises(CloseConnection):
        dispatcher.finish(CONNECTION, waiting)
