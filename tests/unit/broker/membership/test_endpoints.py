"""Which brokers a member names to clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from broker.membership.endpoints import RegisteredEndpoints
from metadata.image import Endpoint
from tests.support.controllers import ControllerHarness


class Named:
    """A member of a cluster of three brokers. `fence` gives the ids of the fenced ones."""

    def __init__(self) -> None:
        harness = ControllerHarness(brokers=3)
        self._brokers = harness.controller.image.brokers
        for broker_id, each in self._brokers.items():
            self._brokers[broker_id] = replace(each, endpoints=(Endpoint("PLAINTEXT", "x", 9092, 0),))
        metadata: Any = harness.controller
        self._endpoints = RegisteredEndpoints(harness.broker.config, metadata)

    def fence(self, *fenced: int) -> None:
        for broker_id, each in self._brokers.items():
            self._brokers[broker_id] = replace(each, fenced=broker_id in fenced)

    def unregister(self, broker_id: int) -> None:
        del self._brokers[broker_id]

    def ids(self, **options: bool) -> list[int]:
        connection: Any = SimpleNamespace(listener_name="PLAINTEXT", local_host="x", local_port=1)
        return [each.node_id for each in self._endpoints.nodes(connection, **options)]


def test_fenced_brokers_are_named_only_where_asked_for() -> None:
    named = Named()
    named.fence(1, 3)
    assert named.ids() == [2]
    assert named.ids(include_fenced=True) == [1, 2, 3]


def test_no_broker_is_named_before_the_first_is_unfenced() -> None:
    """A cluster that starts has no broker that could lead."""
    named = Named()
    named.fence(1, 2, 3)
    assert named.ids() == []


def test_brokers_named_last_stay_while_all_are_fenced() -> None:
    """librdkafka would forget all addresses after an answer without brokers."""
    named = Named()
    named.fence(3)
    assert named.ids() == [1, 2]
    named.fence(1, 2, 3)
    assert named.ids() == [1, 2]
    named.unregister(1)
    assert named.ids() == [2]
    named.fence(2)
    assert named.ids() == [3]
