"""Requests to other brokers that the test answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.network.outbound_errors import ConnectionFailed
from protocol.client_session import PendingRequest, Response
from protocol.schema import Api, Struct
from runtime.deferred import Deferred


class MemoryRequests:
    """`sent` has the broker and the request of each that waits, oldest first."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Struct]] = []
        self._waiting: list[tuple[Api, Deferred[Response]]] = []

    def request(self, broker_id: int, api: Api, request: Struct) -> Deferred[Response]:
        answered: Deferred[Response] = Deferred()
        version = api.versions.max
        decoded, _ = api.request.decode(version, api.request.encode(version, request))
        self.sent.append((broker_id, decoded))
        self._waiting.append((api, answered))
        return answered

    def answer(self, **fields: Any) -> None:
        """Answer the oldest request."""
        self.sent.pop(0)
        api, answered = self._waiting.pop(0)
        answered.resolve(Response(PendingRequest(api, 0, 0), api.response(**fields), b"", 0, 0))

    def lose(self) -> None:
        """Let the oldest request fail."""
        self.sent.pop(0)
        self._waiting.pop(0)[1].fail(ConnectionFailed("broker", "lost"))


class Leaders:
    """A metadata image with topics whose partitions have these leaders."""

    def __init__(self, **topics: list[int]) -> None:
        self.topics = topics

    def topic(self, name: str) -> Any:
        if name not in self.topics:
            return None
        leaders = self.topics[name]
        partitions = {index: SimpleNamespace(leader=each) for index, each in enumerate(leaders)}
        return SimpleNamespace(name=name, topic_id=name.encode().ljust(16), partitions=partitions)
