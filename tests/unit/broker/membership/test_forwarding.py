"""Requests of clients in envelopes to the controller: each gets an answer, or its connection is closed."""

from __future__ import annotations

from inspect import getfullargspec
from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.broker_configs import alter_configs, replace_configs
from broker.membership.forwarding import EnvelopeForwarder
from broker.requests.context import CloseConnection
from protocol.client_session import ClientSession
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES
from protocol.headers import encode_request_header
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.delete_topics import DELETE_TOPICS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.schema import Api
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.unit.broker.membership.channels import CONTROLLER, MemoryChannel

CLIENT: Any = SimpleNamespace(principal="User:ANONYMOUS", token_authenticated=False, client_host="127.0.0.1")


class Stage:
    def __init__(self) -> None:
        loop = FakeLoop()
        self.channel: Any = MemoryChannel()
        self.queued = 0
        self.session = ClientSession("shop")
        timers = Timers(loop, loop.clock)
        self.forwarder = EnvelopeForwarder(
            self.channel, lambda: CONTROLLER, {}, loop.clock, timers, 30_000, lambda _: None, self._count
        )

    def _count(self, change: int) -> None:
        self.queued += change

    def forward(self, *, without_last: int = 0) -> Deferred[bytes]:
        pending, data = self.session.encode(DELETE_TOPICS, 5, DELETE_TOPICS.request(topic_names=["orders"]))
        self.session.expect(pending)
        return self.forwarder.forward(CLIENT, data[SIZE_BYTES : len(data) - without_last])


def test_a_refused_envelope_is_an_error_for_the_client() -> None:
    stage = Stage()
    answered = stage.forward()
    stage.channel.answer(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    (topic,) = stage.session.decode(memoryview(answered.result())[SIZE_BYTES:]).fields.responses
    assert topic.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.queued == 0


def test_a_malformed_request_closes_the_connection() -> None:
    """Without an answer, the client would wait, and its request would count as queued for ever."""
    stage = Stage()
    answered = stage.forward(without_last=3)
    stage.channel.answer(error_code=ErrorCode.INVALID_REQUEST)
    with pytest.raises(ProtocolError):
        answered.result()
    assert stage.queued == 0


@pytest.mark.parametrize(
    ("handler", "api"), [(alter_configs, INCREMENTAL_ALTER_CONFIGS), (replace_configs, ALTER_CONFIGS)]
)
def test_malformed_changes_of_configs_close_the_connection(handler: Any, api: Api) -> None:
    """A member decodes them itself, because it decides about its loggers."""
    frame = encode_request_header(api, 1, 7, "shop") + b"\xff"
    with pytest.raises(CloseConnection, match="malformed request"):
        handler(SimpleNamespace(api_version=1), frame, **dict.fromkeys(getfullargspec(handler).kwonlyargs))
