"""Listeners on all interfaces serve both families, whatever opens them: the broker, a worker, metrics and console."""

from __future__ import annotations

import urllib.request

import pytest

from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.metadata import METADATA
from protocol.schema import Struct
from pybroker.testing import Broker
from tests.support.ports import free_port
from tests.support.wire import WireClient

LOOPBACKS = ("127.0.0.1", "::1")


def metadata(host: str, port: int) -> Struct:
    with WireClient(host, port) as client:
        return client.call(METADATA, 12, topics=[])


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]", "::", "[0::0]", "[::ffff:0.0.0.0]"])
def test_clients_of_both_families_are_served(host: str) -> None:
    """Each gets an address at which it can connect again."""
    with Broker({"listeners": f"PLAINTEXT://{host}:0"}) as broker:
        port = port_of(broker.bootstrap_servers)
        for loopback in LOOPBACKS:
            (node,) = metadata(loopback, port).brokers
            assert (node.host in (loopback, "localhost"), node.port) == (True, port)
            assert len(metadata(node.host, node.port).brokers) == 1


def test_each_of_several_listeners_serves_both_families() -> None:
    """So does that of the controller, of which other nodes ask other questions."""
    of_controller = free_port()
    config = {
        "listeners": f"IN://[::]:0,OUT://0.0.0.0:0,CTL://[::]:{of_controller}",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CTL:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "process.roles": "broker,controller",
        "controller.listener.names": "CTL",
    }
    with Broker(config) as broker:
        assert set(broker.listeners) == {"IN", "OUT", "CTL"}
        for name in ("IN", "OUT"):
            for loopback in LOOPBACKS:
                assert len(metadata(loopback, port_of(broker.listeners[name])).brokers) == 1
        for loopback in LOOPBACKS:
            with WireClient(loopback, of_controller) as client:
                (node,) = client.call(DESCRIBE_CLUSTER, 1, endpoint_type=2).brokers
            assert node.port == of_controller


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_metrics_are_served_to_both_families(host: str) -> None:
    port = free_port()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with Broker({"metrics.listeners": f"http://{host}:{port}"}):
        for loopback in ("127.0.0.1", "[::1]"):
            with opener.open(f"http://{loopback}:{port}/live", timeout=60) as answer:
                assert answer.status == 200


def test_name_of_both_families_is_its_ipv4_address() -> None:
    """As in Apache Kafka. Another process may have the port on ::1."""
    with Broker({"listeners": "PLAINTEXT://localhost:0"}) as broker:
        port = port_of(broker.bootstrap_servers)
        assert len(metadata("127.0.0.1", port).brokers) == 1
        with pytest.raises(ConnectionRefusedError):
            metadata("::1", port)


def test_client_of_a_zone_gets_the_zone() -> None:
    """The address has no meaning without it. `lo` is the zone of ::1."""
    with Broker({"listeners": "PLAINTEXT://[::1%lo]:0"}) as broker:
        (node,) = metadata("::1", port_of(broker.bootstrap_servers)).brokers
        assert node.host == "::1%lo"
