"""Which address a client is told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from broker.endpoints import Node, nodes
from metadata.image import Endpoint
from tests.support.controllers import ControllerHarness


def told(overrides: dict[str, str], listener: str = "PLAINTEXT", **fields) -> list[Node]:
    """What a client is told that reached 192.0.2.7:19092 by a listener."""
    harness = ControllerHarness(overrides)
    connection = SimpleNamespace(listener_name=listener, local_host="192.0.2.7", local_port=19092)
    return list(nodes(SimpleNamespace(broker=harness.broker, connection=connection), **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("overrides", "host", "port"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "127.0.0.1", 9092),
        ({"listeners": "PLAINTEXT://:9092"}, "192.0.2.7", 9092),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, "192.0.2.7", 19092),
        ({"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://example.org:1"}, "example.org", 1),
    ],
)
def test_own_address(overrides: dict[str, str], host: str, port: int):
    """What is advertised; else the listener's host; else where the client came in."""
    (node,) = told(overrides)

    assert (node.node_id, node.host, node.port, node.fenced) == (1, host, port, False)


def test_each_listener_has_its_own():
    """A client inside is not told the address for those outside."""
    overrides = {
        "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
        "advertised.listeners": "INSIDE://inside:9092,OUTSIDE://outside:443",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }

    assert [(n.host, n.port) for n in told(overrides, "INSIDE")] == [("inside", 9092)]
    assert [(n.host, n.port) for n in told(overrides, "OUTSIDE")] == [("outside", 443)]


def test_other_brokers_are_told_by_their_listener_of_that_name():
    """Those that have none are left out."""
    harness = ControllerHarness(brokers=3)
    brokers = harness.controller.image.brokers
    brokers[2] = replace(brokers[2], endpoints=(Endpoint("PLAINTEXT", "two", 9092, 0),), rack="r2")
    brokers[3] = replace(brokers[3], endpoints=(Endpoint("SSL", "three", 9093, 1),))
    connection = SimpleNamespace(listener_name="PLAINTEXT", local_host="x", local_port=1)
    found = list(nodes(SimpleNamespace(broker=harness.broker, connection=connection)))  # type: ignore[arg-type]

    assert [(n.node_id, n.host, n.rack) for n in found] == [(1, "127.0.0.1", None), (2, "two", "r2")]
