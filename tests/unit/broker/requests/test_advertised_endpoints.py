"""Which address a client is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from broker.process import loopback
from broker.requests.advertised_endpoints import Node
from metadata.image import Endpoint
from tests.support.controllers import ControllerHarness
from tests.support.offered import endpoints_of


def told(overrides: dict[str, str], listener: str = "PLAINTEXT", at: str = "192.0.2.7", **fields) -> list[Node]:
    """What a client is told that reached port 19092 of that address by a listener."""
    harness = ControllerHarness(overrides)
    connection = SimpleNamespace(listener_name=listener, local_host=at, local_port=19092)
    return list(endpoints_of(harness.broker).nodes(connection, **fields))  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("opened", "at", "addresses", "host"),
    [
        ("", "127.0.0.1", {"127.0.0.1"}, "localhost"),
        ("", "127.0.0.1", {"127.0.0.1", "::1"}, "localhost"),
        ("", "::1", {"127.0.0.1", "::1"}, "localhost"),
        ("", "::1", {"127.0.0.1"}, "::1"),  # it would not lead back
        ("", "127.0.0.2", {"127.0.0.1"}, "127.0.0.2"),
        ("", "127.0.0.1", set(), "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1", {"127.0.0.1"}, "localhost"),
        ("0.0.0.0", "127.0.0.1", {"127.0.0.1", "::1"}, "127.0.0.1"),  # there is nobody at ::1
        ("[::]", "::1", {"127.0.0.1", "::1"}, "::1"),
        ("[::]", "::1", {"::1"}, "localhost"),
        ("127.0.0.1", "127.0.0.1", {"127.0.0.1"}, "127.0.0.1"),
        ("localhost", "127.0.0.1", {"127.0.0.1"}, "localhost"),
    ],
)
def test_on_this_machine(monkeypatch: pytest.MonkeyPatch, opened: str, at: str, addresses: set[str], host: str):
    """Localhost, where that is the address, and all that it stands for is served; what is fixed stays."""
    monkeypatch.setattr(loopback, "localhost_addresses", lambda: frozenset(addresses))
    (node,) = told({"listeners": f"PLAINTEXT://{opened}:0"}, at=at)
    assert (node.host, node.port) == (host, 19092)


def test_what_localhost_stands_for():
    """Addresses that can be bound; with those of the system nothing else is told than may be."""
    found = loopback.localhost_addresses()
    assert found <= {"127.0.0.1", "::1"}
    assert loopback.name_of("127.0.0.1", None) == ("localhost" if "127.0.0.1" in found else "127.0.0.1")


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
    found = list(endpoints_of(harness.broker).nodes(connection))  # type: ignore[arg-type]

    assert [(n.node_id, n.host, n.rack) for n in found] == [(1, "127.0.0.1", None), (2, "two", "r2")]
