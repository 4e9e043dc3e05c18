"""Requests of a broker to the controller in its process."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.combined.own_controller import OwnConnection, OwnControllerChannel
from broker.network.outbound_errors import ClientClosed, OutboundError
from broker.requests.context import RequestContext
from broker.requests.served_api import ServedApi
from protocol.api_keys import ApiKey
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.schema import Struct
from runtime.deferred import Deferred


class Controller:
    """Serves heartbeats by `reply`, and keeps the contexts."""

    def __init__(self) -> None:
        self.turns: list[Callable[[], None]] = []
        self.contexts: list[RequestContext] = []
        self.reply: Callable[[], Struct | Deferred[Struct]] = lambda: BROKER_HEARTBEAT.response(is_fenced=False)

        def heartbeat(ctx: RequestContext, request: Struct, *, guard: object) -> Any:
            assert guard is None  # no authorizer stands between a node and itself
            self.contexts.append(ctx)
            return self.reply()

        served = ServedApi(ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_HEARTBEAT.versions, handler=heartbeat)
        dispatcher: Any = SimpleNamespace(served={served.key: served}, services={"guard": object()})
        connection = OwnConnection("CONTROLLER", "PLAINTEXT")
        self.channel = OwnControllerChannel(dispatcher, connection, "1", self.turns.append)

    def ask(self) -> Deferred[Any]:
        return self.channel.request(None, BROKER_HEARTBEAT, BROKER_HEARTBEAT.request(broker_id=1))

    def turn(self) -> None:
        while self.turns:
            self.turns.pop(0)()


def test_a_request_is_served_in_a_later_turn() -> None:
    """The newest version answers it. The caller may still be at work with what it asks for."""
    controller = Controller()
    asked = controller.ask()
    assert not asked.done
    controller.turn()
    assert asked.result().fields.is_fenced is False
    assert controller.contexts[0].api_version == ApiKey.BROKER_HEARTBEAT.versions.max


def test_an_answer_may_come_later() -> None:
    controller = Controller()
    later: Deferred[Struct] = Deferred()
    controller.reply = lambda: later
    asked = controller.ask()
    controller.turn()
    assert not asked.done
    later.resolve(BROKER_HEARTBEAT.response(is_caught_up=True))
    controller.turn()
    assert asked.result().fields.is_caught_up is True


@pytest.mark.parametrize("later", [False, True])
def test_a_failure_is_that_of_a_request_without_answer(later: bool) -> None:
    """Its callers try again."""
    controller = Controller()
    failed: Deferred[Struct] = Deferred()

    def reply() -> Deferred[Struct]:
        if not later:
            raise OSError("disk")
        return failed

    controller.reply = reply
    asked = controller.ask()
    controller.turn()
    if later:
        failed.fail(OSError("disk"))
        controller.turn()
    with pytest.raises(OutboundError, match=r"BrokerHeartbeat failed: .*disk"):
        asked.result()


def test_closing_fails_what_waits() -> None:
    controller = Controller()
    later: Deferred[Struct] = Deferred()
    controller.reply = lambda: later
    waiting = controller.ask()
    controller.turn()
    unserved = controller.ask()
    controller.channel.close()
    controller.turn()
    later.resolve(BROKER_HEARTBEAT.response())
    controller.turn()
    for each in (waiting, unserved):
        with pytest.raises(ClientClosed):
            each.result()
    assert len(controller.contexts) == 1
