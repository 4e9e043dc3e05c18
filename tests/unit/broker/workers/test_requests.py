"""Requests that a worker serves, rejects or forwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from broker.access.authentication.delegation_tokens import may_ask
from broker.requests.dispatcher import CloseConnection, Dispatcher, Waiting
from broker.requests.forwarding import ForwardedApi
from broker.requests.served_api import discover
from broker.workers.forwarded import serve_forwarded
from broker.workers.forwarder import LinkForwarder
from broker.workers.link import LinkEnded
from broker.workers.messages import Client, Forward, Forwarded
from broker.workers.requests import (
    LISTS_OF_ALL_BROKERS,
    OF_COORDINATORS,
    SERVED_HERE,
    apis_of_a_worker,
)
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.list_groups import LIST_GROUPS
from protocol.registry import API_BY_KEY
from runtime.deferred import Deferred
from tests.support.network import answers_in, dispatcher_of, request_frame

SERVED = discover()
CONNECTION: Any = SimpleNamespace(
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="192.0.2.1",
    client_port=1,
    local_host="192.0.2.7",
    local_port=9093,
    principal="User:ANONYMOUS",
    client_software_name="n",
    client_software_version="v",
)
CLIENT = Client("PLAINTEXT", "PLAINTEXT", "192.0.2.1", 1, "192.0.2.7", 9093, "User:ANONYMOUS", "n", "v")


class MainProcessLink:
    """Records requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Deferred[Any]]] = []

    def ask(self, message: Any) -> Deferred[Any]:
        self.asked.append((message, Deferred()))
        return self.asked[-1][1]


class CountingServer:
    """Counts held and queued bytes, for back-pressure."""

    def __init__(self) -> None:
        self.bytes = self.requests = 0

    def held(self, more: int) -> None:
        self.bytes += more

    def queued(self, more: int) -> None:
        self.requests += more


def worker(link: MainProcessLink | None = None, server: CountingServer | None = None) -> Dispatcher:
    served = apis_of_a_worker(SERVED)
    for each in served.values():
        each.load()
    counts = server or CountingServer()
    return Dispatcher(served, {"forwarder": LinkForwarder(link or MainProcessLink(), counts.held, counts.queued)})  # type: ignore[arg-type]


def frame_of(api: Any, version: int, **fields: Any) -> memoryview:
    return memoryview(request_frame(api, version, 77, **fields))[4:]


def test_workers_and_main_process_have_equal_api_versions() -> None:
    apis = apis_of_a_worker(SERVED)
    assert list(apis) == list(SERVED)
    for key, each in apis.items():
        assert (each.served, each.advertised) == (SERVED[key].served, SERVED[key].advertised)
    assert not SERVED_HERE & OF_COORDINATORS
    assert not LISTS_OF_ALL_BROKERS & (SERVED_HERE | OF_COORDINATORS)
    assert all(apis[key] is SERVED[key] for key in SERVED_HERE)


@pytest.mark.parametrize("key", sorted(OF_COORDINATORS))
def test_coordinator_apis_answer_not_coordinator(key: int) -> None:
    """In each version of the API, where its response has the code."""
    api = API_BY_KEY[key]
    for version in SERVED[key].served:
        answer = worker().dispatch(CONNECTION, frame_of(api, version))
        assert isinstance(answer, list)
        ((_, decoded),) = answers_in(b"".join(answer), [(api, version)])
        if api is HEARTBEAT:
            assert decoded.error_code == ErrorCode.NOT_COORDINATOR


def test_lists_of_coordinators_are_empty() -> None:
    answer = worker().dispatch(CONNECTION, frame_of(LIST_GROUPS, 5))
    ((_, decoded),) = answers_in(b"".join(answer), [(LIST_GROUPS, 5)])  # type: ignore[arg-type]
    assert (decoded.error_code, decoded.groups) == (ErrorCode.NONE, [])


def test_controller_requests_are_forwarded() -> None:
    """The response of the main process is sent unchanged. If it closes the connection, so does the worker."""
    assert isinstance(apis_of_a_worker(SERVED)[CREATE_TOPICS.key], ForwardedApi)
    link = MainProcessLink()
    dispatcher = worker(link)
    frame = frame_of(CREATE_TOPICS, 7, topics=[], timeout_ms=1)
    waiting = dispatcher.dispatch(CONNECTION, frame)
    assert isinstance(waiting, Waiting)
    [(message, answered)] = link.asked
    assert bytes(frame) == message.frame
    assert message.client == Client(
        "PLAINTEXT", "PLAINTEXT", "192.0.2.1", 1, "192.0.2.7", 9093, "User:ANONYMOUS", "n", "v"
    )
    answered.resolve(Forwarded(b"the frame"))
    assert dispatcher.finish(CONNECTION, waiting) == [b"the frame"]

    for error in (CloseConnection("so"), LinkEnded()):
        waiting = dispatcher.dispatch(CONNECTION, frame)
        assert isinstance(waiting, Waiting)
        link.asked[-1][1].fail(error)
        with pytest.raises(CloseConnection):
            dispatcher.finish(CONNECTION, waiting)


def test_forwarded_requests_count_as_queued() -> None:
    """Requests of disconnected clients count, or clients that reconnect could fill the memory of both processes."""
    link, server = MainProcessLink(), CountingServer()
    dispatcher = worker(link, server)
    frame = frame_of(CREATE_TOPICS, 7, topics=[], timeout_ms=1)
    for _ in range(2):
        waiting = dispatcher.dispatch(CONNECTION, frame)
        assert isinstance(waiting, Waiting)
        waiting.deferred.cancel()
    assert (server.requests, server.bytes) == (2, 2 * len(frame))
    link.asked[0][1].resolve(Forwarded(b"the frame"))
    link.asked[1][1].fail(LinkEnded())
    assert (server.requests, server.bytes) == (0, 0)


def test_main_process_serves_forwarded_requests() -> None:
    """Handlers see the client's connection and may answer later. Errors reach the client too."""
    seen: list[Any] = []
    later: Deferred[Any] = Deferred()

    def handler(ctx: Any, request: Any) -> Any:
        seen.append(
            (ctx.connection.local_port, ctx.connection.principal, ctx.connection.is_closed, str(ctx.connection))
        )
        return later if len(seen) == 2 else HEARTBEAT.response(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    broker: Any = SimpleNamespace(dispatcher=dispatcher_of({HEARTBEAT: handler}))
    frame = bytes(frame_of(HEARTBEAT, 4))
    now, then = (serve_forwarded(broker.dispatcher, Forward(CLIENT, frame)) for _ in range(2))
    assert not then.done
    later.resolve(HEARTBEAT.response())
    assert seen == [(9093, "User:ANONYMOUS", False, "192.0.2.1:1 on PLAINTEXT")] * 2
    for answered, code in ((now, ErrorCode.UNKNOWN_MEMBER_ID), (then, ErrorCode.NONE)):
        ((correlation_id, answer),) = answers_in(answered.result().frame, [(HEARTBEAT, 4)])
        assert (correlation_id, answer.error_code) == (77, code)

    with pytest.raises(CloseConnection):
        serve_forwarded(broker.dispatcher, Forward(CLIENT, bytes(frame_of(LIST_GROUPS, 5)))).result()


def test_token_requests_are_refused_without_authentication() -> None:
    """As by the main process, on a connection without an authenticated user."""
    answers: list[bool] = []
    owner = dispatcher_of({HEARTBEAT: lambda ctx, _: answers.append(may_ask(ctx)) or HEARTBEAT.response()})
    for client in (CLIENT, replace(CLIENT, security_protocol="SASL_SSL")):
        serve_forwarded(owner, Forward(client, bytes(frame_of(HEARTBEAT, 4)))).result()  # type: ignore[arg-type]
    assert answers == [False, True]


def test_forwarded_request_is_charged_once() -> None:
    """The main process charges the quota, and the worker delays the response."""
    charged: list[int] = []

    class Quotas:
        def charge(self, connection: Any, client_id: bytes, api: Any, size: int) -> Any:
            charged.append(api.key)
            return SimpleNamespace(settle=lambda reply: connection.throttle(70) or reply)

    owner = dispatcher_of({HEARTBEAT: lambda ctx, request: HEARTBEAT.response()})
    owner.quotas = Quotas()  # type: ignore[assignment]
    forwarded = serve_forwarded(owner, Forward(CLIENT, bytes(frame_of(HEARTBEAT, 4))))  # type: ignore[arg-type]
    assert (charged, forwarded.result().throttle_ms) == ([HEARTBEAT.key], 70)

    link, waits = MainProcessLink(), list[int]()
    dispatcher = worker(link)
    dispatcher.quotas = Quotas()  # type: ignore[assignment]
    connection: Any = SimpleNamespace(**vars(CONNECTION), throttle=waits.append)
    waiting = dispatcher.dispatch(connection, frame_of(CREATE_TOPICS, 7, topics=[], timeout_ms=1))
    assert isinstance(waiting, Waiting)
    link.asked[0][1].resolve(Forwarded(b"the frame", 70))
    assert dispatcher.finish(connection, waiting) == [b"the frame"]
    assert (charged, waits) == ([HEARTBEAT.key], [70])
