"""Addresses on command lines and in responses."""

from __future__ import annotations

import socket
from argparse import ArgumentTypeError

import pytest

from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.metadata import METADATA
from tools.wire.sessions.addresses import (
    Address,
    address,
    addresses_in,
    listening_sockets,
    servers,
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("localhost:9092", "localhost", 9092), ("[::1]:0", "::1", 0), (":9092", "", 9092), ("::1:9", "::1", 9)],
)
def test_addresses_are_parsed(text: str, host: str, port: int) -> None:
    """Host and port, also for IPv6."""
    assert address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:x", "localhost:65536", "h:-1", "h:²", "a..b:1"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    """Without a port, with an impossible one, or with an impossible host."""
    with pytest.raises(ArgumentTypeError, match="is not HOST:PORT"):
        address(text)


def test_lists_of_servers_are_parsed() -> None:
    """Separated by commas; each needs a host and a port."""
    assert servers("a:1,b:2,") == [Address("a", 1), Address("b", 2)]
    for text in ("", ",", "a:0", ":9"):
        with pytest.raises(ArgumentTypeError):
            servers(text)


def test_localhost_has_one_port_on_all_loopbacks() -> None:
    """IPv4 first, then IPv6 if the machine has it."""
    found = listening_sockets(Address("localhost", 0))
    try:
        assert len({each.getsockname()[1] for each in found}) == 1
        assert [each.getsockname()[0] for each in found] in (["127.0.0.1", "::1"], ["127.0.0.1"])
    finally:
        for each in found:
            each.close()


def test_port_in_use_is_an_error() -> None:
    """No socket stays open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host in ("localhost", "127.0.0.1"):
            with pytest.raises(OSError, match="in use"):
                listening_sockets(Address(host, port))


def test_addresses_in_responses_are_found() -> None:
    """Of brokers and coordinators. Missing ones are skipped."""
    broker = METADATA.response.fields[1].type.element(node_id=7, host="far", port=9)
    metadata = METADATA.response(brokers=[broker])
    (found_address,) = addresses_in(metadata)
    assert (found_address.node, found_address.address) == (7, Address("far", 9))
    found_address.replace(Address("near", 10))
    assert (metadata.brokers[0].host, metadata.brokers[0].port) == ("near", 10)
    assert list(addresses_in(FIND_COORDINATOR.response(node_id=-1, host="", port=-1))) == []
    assert [each.node for each in addresses_in(FIND_COORDINATOR.response(node_id=3, host="h", port=1))] == [3]
