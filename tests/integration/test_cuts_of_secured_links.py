"""`cut_off`, `cut_link` and `reconnect` of a cluster whose nodes and clients connect by TLS and log in."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.messages.api_versions import API_VERSIONS
from pybroker.testing import Cluster
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.wire import WireClient

SHORT_S = 0.2
#: The listener of clients and brokers. The methods of `Cluster` use another one, in plaintext.
SECURED = "SECURED"
_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="n" user_node="n";'


def of_nodes(protocol: str, authority: Authority) -> dict[str, object]:
    """Return the configuration of all nodes. Only brokers and clients with their login, or certificate, get in."""
    properties: dict[str, object] = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{SECURED}://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{SECURED}:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": SECURED,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("node"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.path,
        "ssl.client.auth": "required" if protocol == "SSL" else "none",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{'CN=node,OU=tests,C=DE' if protocol == 'SSL' else 'node'};User:ANONYMOUS",
    }
    if protocol != "SSL":
        properties |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
            f"listener.name.{SECURED.lower()}.plain.sasl.jaas.config": _LOGIN,
        }
    return properties


class Secured:
    """A cluster, and clients of its secured listeners."""

    def __init__(self, cluster: Cluster, protocol: str, authority: Authority) -> None:
        self.cluster = cluster
        certificate = str(authority.issue("node", file="client"))
        self._settings = {
            "bootstrap.servers": ",".join(each.listeners[SECURED] for each in cluster.brokers),
            "security.protocol": protocol,
            "ssl.ca.location": str(authority.path),
            **({"sasl.mechanism": "PLAIN", "sasl.username": "node", "sasl.password": "n"} if protocol != "SSL" else {}),
            **({"ssl.certificate.location": certificate, "ssl.key.location": certificate} if protocol == "SSL" else {}),
            "socket.timeout.ms": 2000,
            "log_level": 0,
        }
        self._producer = Producer({**self._settings, "enable.idempotence": True})
        self._written: Counter[str] = Counter()
        self.context = ssl.create_default_context(cafile=str(authority.path))
        self.context.load_cert_chain(certificate)

    def write(self, topic: str, count: int = 20) -> None:
        """Write the next numbers, all of which are acknowledged."""
        refused: list[object] = []
        for number in range(self._written[topic], self._written[topic] + count):
            self._producer.produce(topic, str(number), on_delivery=lambda error, _: refused.append(error))
        assert self._producer.flush(60) == 0
        assert refused == [None] * count
        self._written[topic] += count

    def check(self, topic: str) -> None:
        """Check that each number is there once, in order."""
        consumer = Consumer({**self._settings, "group.id": "check"})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = consumer.consume(end, timeout=60)
            assert [int(each.value() or b"-1") for each in found] == list(range(self._written[topic]))
        finally:
            consumer.close()

    def in_sync(self, topic: str) -> set[int]:
        """Return the ids of the replicas in sync, by the leader."""
        (partition,) = self.cluster.leader_of(topic).view(topic).partitions
        return set(partition.in_sync)


@pytest.fixture(
    scope="module",
    params=[
        "SASL_SSL",
        pytest.param("SSL", marks=pytest.mark.full_size),
    ],
)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    with Cluster(config=of_nodes(request.param, authority)) as cluster:
        yield Secured(cluster, request.param, authority)


def test_cut_off_follower_leaves_the_isr(secured: Secured) -> None:
    """Other replicas acknowledge records meanwhile. It comes back, leads, and has all of them."""
    cluster = secured.cluster
    cluster.create_topic("follower")
    leader = cluster.leader_of("follower")
    follower = next(each for each in cluster.brokers if each is not leader)
    secured.write("follower")
    follower.cut_off()
    secured.write("follower")
    eventually(lambda: follower.node_id in secured.in_sync("follower"), until=lambda found: not found)
    follower.reconnect()
    cluster.wait_until_in_sync("follower")
    cluster.move_leader("follower", to=follower)
    secured.check("follower")


def test_cut_off_leader_is_replaced(secured: Secured) -> None:
    """Its clients go on at another leader, which the controller elects."""
    cluster = secured.cluster
    cluster.create_topic("leader")
    former = cluster.leader_of("leader")
    secured.write("leader")
    former.cut_off()
    assert cluster.leader_of("leader") is not former
    secured.write("leader")
    assert former.node_id not in secured.in_sync("leader")
    former.reconnect()
    cluster.wait_until_in_sync("leader")
    cluster.move_leader("leader", to=former)
    secured.check("leader")


def test_brokers_go_on_while_the_controller_is_cut_off(secured: Secured) -> None:
    """Afterwards it takes a follower out of the ISR that sends nothing to its leader."""
    cluster = secured.cluster
    cluster.create_topic("alone")
    leader = cluster.leader_of("alone")
    follower = next(each for each in cluster.brokers if each is not leader)
    cluster.controller.cut_off()
    secured.write("alone")
    cluster.controller.reconnect()
    cluster.cut_link(follower, leader, one_way=True)
    secured.write("alone")
    eventually(lambda: follower.node_id in secured.in_sync("alone"), until=lambda found: not found)
    cluster.reconnect()
    cluster.wait_until_in_sync("alone")
    secured.check("alone")


def test_connections_of_clients_wait(secured: Secured) -> None:
    """An old one is answered after the cut. One that began meanwhile ends its handshake then."""
    broker = secured.cluster.brokers[0]
    host, _, port = broker.listeners[SECURED].rpartition(":")
    secure = partial(secured.context.wrap_socket, server_hostname=host)
    with WireClient(host, int(port), secure=secure) as old:
        broker.cut_off()
        old.send(API_VERSIONS, 0)
        old.socket.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            old.socket.recv(1)
        with socket.create_connection((host, int(port)), timeout=SHORT_S) as plain:
            new = secure(plain, do_handshake_on_connect=False)
            with pytest.raises(TimeoutError):
                new.do_handshake()
            broker.reconnect()
            new.settimeout(60)
            new.do_handshake()
            new.close()
        old.socket.settimeout(60)
        old.receive()
