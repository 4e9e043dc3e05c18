"""Coordinators have one connection to each broker, at its address of now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.membership.coordination.peer_requests import PeerRequests
from broker.network.outbound_errors import ConnectionFailed
from protocol.client_session import Response
from protocol.messages.end_txn import END_TXN
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.deferred import Deferred


class Client:
    def __init__(self) -> None:
        self.requests = 0
        self.is_closed = False

    def request(self, api: Api, request: Struct) -> Deferred[Response]:
        self.requests += 1
        return Deferred()

    def close(self) -> None:
        self.is_closed = True


class Brokers:
    """The brokers by the metadata."""

    def __init__(self) -> None:
        self.endpoints = {2: Endpoint("b", 9092), 3: Endpoint("c", 9092)}
        self.clients: list[Client] = []

    def endpoint(self, broker_id: int) -> Endpoint | None:
        return self.endpoints.get(broker_id)

    def client(self, broker_id: int, client_id: str) -> Client | None:
        if broker_id not in self.endpoints:
            return None
        self.clients.append(Client())
        return self.clients[-1]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def ask(brokers: Brokers) -> Callable[[int], Deferred[Response]]:
    requests = PeerRequests(brokers, "broker-1-transactions")  # type: ignore[arg-type]
    return lambda broker_id: requests.request(broker_id, END_TXN, END_TXN.request())


def test_requests_share_the_connection_to_a_broker(brokers: Brokers, ask: Callable[[int], object]) -> None:
    for broker_id in (2, 3, 2):
        ask(broker_id)
    assert [each.requests for each in brokers.clients] == [2, 1]


def test_a_broker_that_moved_is_asked_at_its_new_address(brokers: Brokers, ask: Callable[[int], object]) -> None:
    ask(2)
    brokers.endpoints[2] = Endpoint("b", 9093)
    ask(2)
    assert [(each.requests, each.is_closed) for each in brokers.clients] == [(1, True), (1, False)]


def test_unknown_brokers_cannot_be_asked(brokers: Brokers, ask: Callable[[int], Deferred[Response]]) -> None:
    ask(2)
    brokers.endpoints.clear()
    with pytest.raises(ConnectionFailed):
        ask(2).result()
    assert brokers.clients[0].is_closed


def test_close_closes_all(brokers: Brokers) -> None:
    requests = PeerRequests(brokers, "x")  # type: ignore[arg-type]
    for broker_id in (2, 3):
        requests.request(broker_id, END_TXN, END_TXN.request())
    requests.close()
    assert all(each.is_closed for each in brokers.clients)
