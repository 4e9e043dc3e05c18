"""TLS listeners: stock clients, both kinds of stores, client certificates, and replaced certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from protocol.messages.metadata import METADATA
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import PASSWORD, Authority
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain
from tests.support.wire import WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = ("PEM", "STORE", "MUTUAL", "LOGIN")
LARGE = 3_000_000


class TlsBroker(OurBroker):
    """A broker with several TLS listeners; `ports` by listener."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.ports = {name: free_port() for name in LISTENERS}
        port = free_port()
        server = authority.issue("server")
        listeners = [f"PLAINTEXT://{HOST}:{port}", *(f"{name}://{HOST}:{self.ports[name]}" for name in LISTENERS)]
        pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(server)}
        own = {
            "store": {"ssl.keystore.location": str(server.with_suffix(".p12")), "ssl.keystore.password": PASSWORD},
            "mutual": pem
            | {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.path),
                "ssl.enabled.protocols": "TLSv1.2",
                "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            },
            "login": pem
            | {
                "sasl.enabled.mechanisms": "PLAIN",
                "plain.sasl.jaas.config": f'{MODULE} required user_alice="secret";',
            },
            "pem": pem,
        }
        properties = {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEM:SSL,STORE:SSL,MUTUAL:SSL,LOGIN:SASL_SSL",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=(.*?),.*$/$1-$2/U",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:CLIENT-TESTS;User:alice",
            "message.max.bytes": str(2 * LARGE),
            **{f"listener.name.{name}.{key}": value for name, keys in own.items() for key, value in keys.items()},
        }
        super().__init__(directory, properties, port=port)


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("tls"), authority)
    yield broker
    broker.stop()


class TlsWireClient(WireClient):
    """A client that speaks TLS."""

    def __init__(self, port: int, authority: Authority, certificate: Path | None = None) -> None:
        context = ssl.create_default_context(cafile=str(authority.path))
        if certificate is not None:
            context.load_cert_chain(certificate)
        super().__init__(HOST, port, secure=lambda plain: context.wrap_socket(plain, server_hostname=HOST))


@pytest.mark.parametrize("listener", ["PEM", "STORE"])
class TestStockClients:
    """They produce and consume a record larger than a TLS record and the socket's buffer."""

    def test_kafka_python(self, broker: TlsBroker, authority: Authority, listener: str) -> None:
        settings = {
            "bootstrap_servers": f"{HOST}:{broker.ports[listener]}",
            "security_protocol": "SSL",
            "ssl_cafile": str(authority.path),
        }
        topic = f"kafka-python-{listener}"
        producer = KafkaProducer(**settings, max_request_size=2 * LARGE)
        producer.send(topic, bytes(LARGE)).get(60)
        consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", max_partition_fetch_bytes=2 * LARGE)
        assert next(consumer).value == bytes(LARGE)
        consumer.close()
        producer.close()

    def test_confluent_kafka(self, broker: TlsBroker, authority: Authority, listener: str) -> None:
        settings = {
            "bootstrap.servers": f"{HOST}:{broker.ports[listener]}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.path),
        }
        topic = f"confluent-kafka-{listener}"
        producer = Producer({**settings, "message.max.bytes": 2 * LARGE})
        producer.produce(topic, bytes(LARGE))
        assert producer.flush(60) == 0
        consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == bytes(LARGE)
        consumer.close()

    def test_aiokafka(self, broker: TlsBroker, authority: Authority, listener: str) -> None:
        async def round_trip() -> bytes | None:
            context = ssl.create_default_context(cafile=str(authority.path))
            settings = {
                "bootstrap_servers": f"{HOST}:{broker.ports[listener]}",
                "security_protocol": "SSL",
                "ssl_context": context,
            }
            topic = f"aiokafka-{listener}"
            async with AIOKafkaProducer(**settings, max_request_size=2 * LARGE) as producer:
                await producer.send_and_wait(topic, bytes(LARGE))
            async with AIOKafkaConsumer(
                topic, **settings, auto_offset_reset="earliest", max_partition_fetch_bytes=2 * LARGE
            ) as consumer:
                return (await consumer.getone()).value

        assert asyncio.run(round_trip()) == bytes(LARGE)


def test_client_certificates_give_the_principal(broker: TlsBroker, authority: Authority, tmp_path: Path) -> None:
    """Clients without one, or with one of another authority, are rejected."""
    port = broker.ports["MUTUAL"]
    with TlsWireClient(port, authority, authority.issue("client")) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.cipher()[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")  # type: ignore[index]
        assert client.call(METADATA, 12, topics=[], include_topic_authorized_operations=True).error_code == 0
    stranger = Authority(tmp_path, "stranger").issue("client")
    for certificate in (None, stranger):
        with pytest.raises(OSError):  # noqa: PT011  # as OpenSSL names it
            TlsWireClient(port, authority, certificate)
    assert "Failed authentication (SSL handshake failed" in broker.output


def test_sasl_over_tls(broker: TlsBroker, authority: Authority) -> None:
    with TlsWireClient(broker.ports["LOGIN"], authority) as client:
        assert log_in_plain(client, "alice", "secret").error_code == 0
        assert client.call(METADATA, 12, topics=[]).error_code == 0


def test_plaintext_clients_are_closed(broker: TlsBroker) -> None:
    """So is a silent client once it hangs up."""
    with socket.create_connection((HOST, broker.ports["PEM"])) as client:
        client.settimeout(60)
        client.sendall(bytes.fromhex("0000000a00120000000000000000"))
        with suppress(ConnectionResetError):
            answer = client.recv(100)
            assert answer == b"" or answer[:1] == b"\x15"  # a TLS alert
    socket.create_connection((HOST, broker.ports["PEM"])).close()
    broker.catch_up()


def test_split_and_joined_requests_over_tls(broker: TlsBroker, authority: Authority) -> None:
    """Requests byte by byte, and many at once."""
    with TlsWireClient(broker.ports["PEM"], authority) as client:
        frame = client.request_frame(METADATA, 12, topics=[])
        client.expect(METADATA, 12, 1)
        for byte in frame:
            client.socket.sendall(bytes((byte,)))
        assert client.receive().error_code == 0
        for _ in range(500):
            client.send(METADATA, 12, topics=[])
        assert {client.receive().error_code for _ in range(500)} == {0}


def test_replaced_certificates_apply_to_new_connections(broker: TlsBroker, authority: Authority) -> None:
    """A broken file changes nothing."""

    def serial_number() -> int:
        certificate = ssl.get_server_certificate((HOST, broker.ports["PEM"]))
        return hash(certificate)

    before, path = serial_number(), authority.issue("server")
    after = eventually(serial_number, until=lambda found: found != before, interval_s=0.2)
    path.write_text("nothing")
    time.sleep(1)
    assert serial_number() == after
