"""The network of the simulation: at most one request or response on each connection, and requests in limbo.

A connection that breaks fails the request at its sender. The request itself may be lost, or stay in limbo: in a buffer
of the receiver, which handles it later, after newer requests of other connections.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from runtime.deferred import Deferred

CONTROLLER = 0
NEVER = sys.maxsize


class Route(NamedTuple):
    """A connection: the broker that asks, what it asks for, and who answers."""

    source: int
    kind: str
    target: int

    def __str__(self) -> str:
        return f"{self.source} {self.kind} {self.target}"


class Exchange:
    """A request on its way, or being answered. `after`: the metadata offset that must be committed first.

    `epoch`: the leader epoch of the coordinator that has taken the request.
    """

    __slots__ = ("after", "epoch", "request", "response")

    def __init__(self, request: Any) -> None:
        self.request = request
        self.response: Any = None
        self.after = 0
        self.epoch = -1

    def wait_for(self, answer: Deferred[Any]) -> None:
        """The receiver answers when it can."""

        def take(done: Deferred[Any]) -> None:
            self.response, self.after = done.result(), 0

        self.response, self.after = answer, NEVER
        answer.add_done_callback(take)


class Network:
    """All exchanges, links that are cut, and requests in limbo."""

    def __init__(self) -> None:
        self.exchanges: dict[Route, Exchange] = {}
        self.cut: set[tuple[int, int]] = set()
        self.limbo: list[tuple[Route, Any]] = []
        #: The version of the target when a route was last answered, to see whether a request is worth a step.
        self.seen: dict[Route, int] = {}

    def send(self, route: Route, request: Any) -> None:
        assert route not in self.exchanges
        self.exchanges[route] = Exchange(request)

    def passes(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut

    def forget(self, node_id: int) -> list[Route]:
        """A broker's process has ended. Its requests stay in limbo; those to it fail, and their routes are returned.

        Late registrations and heartbeats are left out: a broker that lives would stay out until its next start, as
        with Apache Kafka.
        """
        failed = []
        for route in list(self.exchanges):
            if node_id in (route.source, route.target):
                exchange = self.exchanges.pop(route)
                if route.source == node_id and exchange.response is None and route.kind not in ("observe", "life"):
                    self.limbo.append((route, exchange.request))
                if route.target == node_id:
                    failed.append(route)
        self.limbo = [
            each
            for each in self.limbo
            if each[0].target != node_id and (each[0].source, each[0].kind) != (node_id, "life")
        ]
        return failed
