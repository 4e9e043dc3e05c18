"""Other brokers are known by the metadata, and their addresses may change."""

from __future__ import annotations

from typing import Any

import pytest

from broker.membership.peers import Peers
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_security import OutboundSecurity
from config import load
from metadata.image import Endpoint as RegisteredEndpoint
from metadata.image import MetadataImage
from metadata.registration import NodeIdentity, leave, register_broker, unfence_broker
from metadata.replay import replay_all
from replication.observing import Endpoint
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.support.images import cluster


def registered(image: MetadataImage, host: str, epoch: int) -> list[Any]:
    endpoints = [RegisteredEndpoint("CLIENTS", "public", 9094, 0), RegisteredEndpoint("PLAINTEXT", host, 9092, 0)]
    return register_broker(image, NodeIdentity(2, bytes(16)), epoch, endpoints, None, [])


@pytest.fixture
def image() -> MetadataImage:
    image = cluster()
    replay_all(image, registered(image, "first", 20))
    replay_all(image, unfence_broker(image, 2))
    return image


@pytest.fixture
def peers(image: MetadataImage) -> Peers:
    loop: Any = FakeLoop()
    clients = OutboundClients(load(), loop, Timers(loop, loop.clock), OutboundSecurity())
    return Peers(image, clients, "PLAINTEXT")


def test_address_is_that_of_the_listener_between_brokers(peers: Peers) -> None:
    client = peers.client(2, "broker-1-fetcher-0")
    assert client is not None
    assert client.address == "first:9092"
    assert peers.endpoint(2) == Endpoint("first", 9092)
    assert peers.client(3, "broker-1-fetcher-0") is None


def test_only_active_brokers_have_an_epoch(peers: Peers, image: MetadataImage) -> None:
    """Others neither join an ISR nor hold the high watermark."""
    assert peers.broker_epoch(2) == 20
    replay_all(image, leave(image, 2))
    assert peers.broker_epoch(2) is None
    assert peers.broker_epoch(3) is None
