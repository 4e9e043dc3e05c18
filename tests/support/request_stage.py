"""Requests to a dispatcher as frames, without a connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.requests.dispatcher import Dispatcher
from protocol.messages.heartbeat import HEARTBEAT
from protocol.schema import Api, Struct
from tests.support.network import answers_in, request_frame

CONNECTION: Any = "the connection"
CORRELATION_ID = 77


class RequestStage:
    """A dispatcher, and a client that sends it one request at a time: Heartbeat, unless the test names another API."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    def ask(self, api: Api = HEARTBEAT, version: int = 4, connection: Any = CONNECTION, **fields: Any) -> Any:
        """Dispatch a request and return the result. Afterwards the receive buffer holds other bytes."""
        frame = bytearray(request_frame(api, version, CORRELATION_ID, **fields))
        result = self.dispatcher.dispatch(connection, memoryview(frame)[4:])
        frame[:] = bytes(len(frame))
        return result

    def finish(self, waiting: Any) -> Any:
        """Return the frame of an answer that is no longer deferred."""
        return self.dispatcher.finish(CONNECTION, waiting)


def decoded(chunks: Iterable[Any], api: Api = HEARTBEAT, version: int = 4) -> Struct:
    """Return the one answer in the chunks of a frame."""
    ((correlation_id, answer),) = answers_in(b"".join(chunks), [(api, version)])
    assert correlation_id == CORRELATION_ID
    return answer
