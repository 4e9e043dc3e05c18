"""Which address the broker advertises to a client."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from broker.process import loopback
from broker.requests.advertised_endpoints import Node
from metadata.image import Endpoint
from tests.support.controllers import ControllerHarness
from tests.support.offered import endpoints_of


def advertised_address(
    overrides: dict[str, str], listener: str = "PLAINTEXT", at: str = "192.0.2.7", **fields
) -> list[Node]:
    """Return the address for a client that reached port 19092 of that address through a listener."""
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
    """The advertised listener comes first, then the listener's host, then the address that the client connected to."""
    (node,) = advertised_address(overrides)

    assert (node.node_id, node.host, node.port, node.fenced) == (1, host, port, False)


@pytest.mark.parametrize(
    ("opened", "at", "addresses", "host"),
    [
        ("", "127.0.0.1", {"127.0.0.1"}, "localhost"),
        ("", "127.0.0.1", {"127.0.0.1", "::1"}, "localhost"),
        ("", "::1", {"127.0.0.1", "::1"}, "localhost"),
        ("", "::1", {"127.0.0.1"}, "::1"),  # the client could not reach it
        ("", "127.0.0.2", {"127.0.0.1"}, "127.0.0.2"),
        ("", "127.0.0.1", set(), "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1", {"127.0.0.1"}, "localhost"),
        ("0.0.0.0", "127.0.0.1", {"127.0.0.1", "::1"}, "localhost"),
        ("0.0.0.0", "::1", {"127.0.0.1", "::1"}, "localhost"),
        ("[::]", "127.0.0.1", {"127.0.0.1", "::1"}, "localhost"),
        ("[::0]", "::1", {"127.0.0.1", "::1"}, "localhost"),
        ("[::]", "192.0.2.7", {"127.0.0.1", "::1"}, "192.0.2.7"),
        ("[::]", "fe80::1%eth0", {"127.0.0.1", "::1"}, "fe80::1%eth0"),
        ("127.0.0.1", "127.0.0.1", {"127.0.0.1"}, "127.0.0.1"),
        ("localhost", "127.0.0.1", {"127.0.0.1"}, "localhost"),
    ],
)
def test_localhost_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, opened: str, at: str, addresses: set[str], host: str
):
    """Localhost is used if it is the address and all of its addresses are served. A configured address stays."""
    monkeypatch.setattr(loopback, "localhost_addresses", lambda: frozenset(addresses))
    (node,) = advertised_address({"listeners": f"PLAINTEXT://{opened}:0"}, at=at)
    assert (node.host, node.port) == (host, 19092)


def test_the_addresses_of_localhost():
    """Addresses that can be bound. With the system's resolver they are all among the expected ones."""
    found = loopback.localhost_addresses()
    assert found <= {"127.0.0.1", "::1"}
    assert loopback.name_of("127.0.0.1", None) == ("localhost" if "127.0.0.1" in found else "127.0.0.1")


def test_each_listener_has_its_own_address():
    """A client of the internal listener does not get the external address."""
    overrides = {
        "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
        "advertised.listeners": "INSIDE://inside:9092,OUTSIDE://outside:443",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }

    assert [(n.host, n.port) for n in advertised_address(overrides, "INSIDE")] == [("inside", 9092)]
    assert [(n.host, n.port) for n in advertised_address(overrides, "OUTSIDE")] == [("outside", 443)]


def test_other_brokers_are_listed_by_the_same_listener():
    """Brokers without a listener of that name are left out."""
    harness = ControllerHarness(brokers=3)
    brokers = harness.controller.image.brokers
    brokers[2] = replace(brokers[2], endpoints=(Endpoint("PLAINTEXT", "two", 9092, 0),), rack="r2")
    brokers[3] = replace(brokers[3], endpoints=(Endpoint("SSL", "three", 9093, 1),))
    connection = SimpleNamespace(listener_name="PLAINTEXT", local_host="x", local_port=1)
    found = list(endpoints_of(harness.broker).nodes(connection))  # type: ignore[arg-type]

    assert [(n.node_id, n.host, n.rack) for n in found] == [(1, "127.0.0.1", None), (2, "two", "r2")]
