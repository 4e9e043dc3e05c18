"""A dispatcher that makes requests fail on a test's command.

A fault applies to one API and to a number of requests. Faults of an API apply in the order of the commands;
later requests are served normally. A delayed request blocks its connection, as any unanswered request does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from broker.network.output_queue import release
from broker.requests.context import ClientConnection
from broker.requests.dispatcher import (
    ApiVersionHandler,
    CloseConnection,
    Dispatcher,
    Waiting,
)
from broker.requests.error_reply import error_reply
from broker.requests.served_api import ServedApi
from protocol.error_codes import ErrorCode
from protocol.headers import decode_request_header
from protocol.messages.produce import PRODUCE
from protocol.schema import Chunk
from runtime.deferred import Deferred

_API_KEY = slice(0, 2)


class Fault(msgspec.Struct):
    """A fault of the next `count` requests of an API. One of:

    - `delay_ms`: the request is served after a delay
    - `error`: the request is answered with an error, and not served
    - neither: the connection is closed; with `is_served` after serving the request, so that only its answer is lost
    """

    count: int
    delay_ms: int | None = None
    error: ErrorCode | None = None
    is_served: bool = False


class FaultyDispatcher(Dispatcher):
    """A dispatcher that applies faults."""

    __slots__ = ("_faults", "call_later")

    #: Set before the first fault with a delay.
    call_later: Callable[[int, Callable[[], None]], object]

    def __init__(self, served: Mapping[int, ServedApi]) -> None:
        super().__init__(served)
        self._faults: dict[bytes, deque[Fault]] = {}  # by API key, as encoded in requests

    def add(self, api_key: int, fault: Fault) -> None:
        """Add a fault for the next requests of an API, after those that were added before."""
        self._faults.setdefault(api_key.to_bytes(2), deque()).append(fault)

    def clear(self) -> None:
        """Remove all faults. Requests that are already delayed are still served at their time."""
        self._faults.clear()

    def dispatch(
        self, connection: ClientConnection, frame: memoryview, again: bool = False
    ) -> bytes | list[Chunk] | Waiting | None:
        if not again and self._faults:  # a fault was already applied to a request that is dispatched again
            key = bytes(frame[_API_KEY])
            if key in self._faults and len(frame) >= 8:
                return self._spoil(self._next_of(key), connection, frame)
        return super().dispatch(connection, frame, again)

    def _next_of(self, key: bytes) -> Fault:
        faults = self._faults[key]
        fault = faults[0]
        fault.count -= 1
        if fault.count <= 0:
            faults.popleft()
            if not faults:
                del self._faults[key]
        return fault

    def _spoil(
        self, fault: Fault, connection: ClientConnection, frame: memoryview
    ) -> bytes | list[Chunk] | Waiting | None:
        key_and_version = int.from_bytes(frame[:4])
        served = self.served.get(key_and_version >> 16)
        if served is not None:
            served.load()
        served_by = self._prepared.get(key_and_version) or self._prepare(key_and_version)
        if served_by is None:  # the dispatcher answers unknown APIs itself
            return super().dispatch(connection, frame)
        if fault.delay_ms is not None:
            return self._delay(fault.delay_ms, served_by, frame)
        if fault.error is not None:
            return self._refuse_with(fault.error, served_by, frame)
        if fault.is_served:
            _drop(super().dispatch(connection, frame))
            raise CloseConnection(f"a test wants the answer to {served_by.api.name} lost")
        raise CloseConnection(f"a test wants the connection closed at {served_by.api.name}")

    def _delay(self, delay_ms: int, served_by: ApiVersionHandler, frame: memoryview) -> Waiting:
        """Let the request wait, as a fast path does when it leaves one to the handler; serve it after the delay."""
        over: Deferred[None] = Deferred()
        self.call_later(delay_ms, lambda: over.resolve(None))
        served_by.requests += 1
        return Waiting(served_by, int.from_bytes(frame[4:8]), bytes(frame), over)

    def _refuse_with(self, error: ErrorCode, served_by: ApiVersionHandler, frame: memoryview) -> list[Chunk]:
        served_by.requests += 1
        header = decode_request_header(frame)
        request = served_by.decode(frame, header.position)[0]
        answer = None
        if served_by.api is not PRODUCE or request.acks:  # with acks=0 only closing signals an error
            answer = error_reply(served_by.api, served_by.version, request, error)
        if answer is None:
            raise CloseConnection(f"a test wants {served_by.api.name} to fail with {error.name}")
        return served_by.encode(header.correlation_id, answer)


def _drop(answer: bytes | list[Chunk] | Waiting | None) -> None:
    """Drop an answer, as for a disconnected client."""
    if isinstance(answer, Waiting):
        answer.deferred.cancel()
    elif isinstance(answer, list):
        release(answer)
