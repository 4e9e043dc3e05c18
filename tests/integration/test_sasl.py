"""SASL authentication of stock clients and raw requests, against a broker of its own process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from broker.access.authentication.scram_key import KEY_FILE
from protocol.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS, UserName
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterableConfig, AlterConfigsResource
from protocol.messages.metadata import METADATA
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from security.sasl.scram_credential import ScramMechanism
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain, log_in_scram, plain_token
from tests.support.wire import Closed, WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SHA_512 = ScramMechanism.SCRAM_SHA_512
SESSION_MS = 3_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """User alice has a password for each mechanism. Sessions on the second listener expire."""
    directory = tmp_path_factory.mktemp("sasl")
    port, short = free_port(), free_port()
    properties = {
        "listeners": f"CLIENTS://{HOST}:{port},SHORT://{HOST}:{short}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "50",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret" user_bob="other";'
            for name in ("clients", "short")
        },
    }
    config = directory / "format.properties"
    config.write_text(f"node.id=1\nlog.dirs={directory / 'logs'}\n")
    users = [
        part
        for mechanism in MECHANISMS[1:]
        for part in ("--add-scram", f"{mechanism}=[name=alice,password=secret,iterations=4096]")
    ]
    command = [sys.executable, "-m", "pybroker", "format", "-c", str(config), *users]
    subprocess.run(command, check=True, capture_output=True)
    broker = OurBroker(directory, properties, port=port)
    broker.short_port = short  # type: ignore[attr-defined]
    yield broker
    broker.stop()


@pytest.fixture
def client(broker: OurBroker) -> Iterator[WireClient]:
    with WireClient(HOST, broker.port) as client:
        yield client


def sasl(broker: OurBroker, mechanism: str, password: str) -> dict[str, str]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
class TestStockClients:
    def test_kafka_python(self, broker: OurBroker, mechanism: str) -> None:
        producer = KafkaProducer(**sasl(broker, mechanism, "secret"))
        assert producer.send("topic", b"value").get(30).topic == "topic"
        producer.close()
        with pytest.raises(KafkaPythonError):
            KafkaProducer(**sasl(broker, mechanism, "wrong"), bootstrap_timeout_ms=1_000)

    def test_confluent_kafka(self, broker: OurBroker, mechanism: str) -> None:
        for password, delivered in (("secret", True), ("wrong", False)):
            errors: list[KafkaError] = []
            reports: list[object] = []
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism,
                    "sasl.username": "alice",
                    "sasl.password": password,
                    "error_cb": errors.append,
                }
            )
            producer.produce("topic", b"value", on_delivery=lambda error, _, into=reports: into.append(error))
            deadline = time.monotonic() + 60
            while not reports and not errors and time.monotonic() < deadline:
                producer.poll(0.1)
            assert (reports == [None]) is delivered
            assert delivered or errors[0].code() == KafkaError._AUTHENTICATION
            producer.purge()
            producer.flush(10)

    def test_aiokafka(self, broker: OurBroker, mechanism: str) -> None:
        async def send(password: str) -> str:
            producer = AIOKafkaProducer(**sasl(broker, mechanism, password))
            try:
                await producer.start()
                return (await producer.send_and_wait("topic", b"value")).topic
            finally:
                await producer.stop()

        assert asyncio.run(send("secret")) == "topic"
        with pytest.raises(AioKafkaError):
            asyncio.run(send("wrong"))


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_handshake_v0_is_followed_by_raw_tokens(client: WireClient, password: str) -> None:
    """Clients from before KIP-152 send the token without a request header. A wrong password closes the connection."""
    assert client.call(SASL_HANDSHAKE, 0, mechanism="PLAIN").error_code == 0
    token = plain_token("alice", password)
    client.socket.sendall(len(token).to_bytes(4) + token)
    if password == "wrong":
        assert client.socket.recv(4) == b""
        return
    assert client.socket.recv(4) == bytes(4)
    assert client.call(METADATA, 12, topics=[]).error_code == 0


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_wrong_password_gets_the_message_of_kafka(broker: OurBroker, user: str, password: str) -> None:
    """The error is the same for an unknown user. Then the broker closes the connection."""
    with WireClient(HOST, broker.port) as client:
        answer = log_in_plain(client, user, password)
        assert answer.error_code == 58
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert client.socket.recv(1) == b""
    with WireClient(HOST, broker.port) as client:
        challenge, last = log_in_scram(client, SHA_512, user, password)
        assert challenge.error_code == 0
        assert last.error_code == 58
        assert last.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
        )
        assert client.socket.recv(1) == b""


def test_unsupported_mechanism_returns_those_of_the_listener(broker: OurBroker) -> None:
    """Each listener has its own list of mechanisms."""
    with WireClient(HOST, broker.port) as client:
        answer = client.call(SASL_HANDSHAKE, 1, mechanism="GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (33, list(MECHANISMS))
        assert client.socket.recv(1) == b""
    with WireClient(HOST, broker.short_port) as client:  # type: ignore[attr-defined]
        answer = client.call(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN"])


def test_requests_before_authentication_close_the_connection(broker: OurBroker) -> None:
    """ApiVersions is served. Other requests, oversized frames and bytes that are no request close the connection.

    Between handshake and token, a request gets ILLEGAL_SASL_STATE before the close.
    """
    with WireClient(HOST, broker.port) as client:
        assert client.call(API_VERSIONS, 4, client_software_name="test", client_software_version="1").error_code == 0
        with pytest.raises(Closed):
            client.call(METADATA, 12, topics=[])
    with WireClient(HOST, broker.port) as client:
        client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert client.call(METADATA, 13, topics=[]).error_code == 34
        assert client.socket.recv(1) == b""
    for garbage in (b"\0\0\0\x04\x60\x82\x02\x00", (600_000).to_bytes(4), b"GET / HTTP/1.1\r\n\r\n"):
        with WireClient(HOST, broker.port) as client:
            client.socket.sendall(garbage)
            assert client.socket.recv(1) == b""


def test_pipelined_requests_authenticate_in_order(client: WireClient) -> None:
    """A client need not wait for the handshake's response before it sends its token."""
    client.send(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    client.send(SASL_AUTHENTICATE, 2, auth_bytes=plain_token("alice", "secret"))
    client.send(METADATA, 12, topics=[])
    client.send(SASL_AUTHENTICATE, 2, auth_bytes=plain_token("alice", "secret"))
    client.send(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    codes = [client.receive().error_code for _ in range(5)]
    assert codes == [0, 0, 0, 34, 34]  # ILLEGAL_SASL_STATE: this listener has no re-authentication


def test_sessions_expire_unless_reauthenticated(broker: OurBroker) -> None:
    """The response has the lifetime, and the same user may re-authenticate. An expired session is closed."""
    with WireClient(HOST, broker.short_port) as client:  # type: ignore[attr-defined]
        assert log_in_plain(client, "alice", "secret").session_lifetime_ms == SESSION_MS
        time.sleep(1)
        assert log_in_plain(client, "alice", "secret").session_lifetime_ms == SESSION_MS
        assert client.call(METADATA, 12, topics=[]).error_code == 0
        assert client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 34  # within a second of the last one
        time.sleep(SESSION_MS / 1000 + 0.2)
        with pytest.raises(Closed):
            client.call(METADATA, 12, topics=[])


def test_reauthentication_as_another_user_fails(broker: OurBroker) -> None:
    with WireClient(HOST, broker.short_port) as client:  # type: ignore[attr-defined]
        log_in_plain(client, "alice", "secret")
        answer = log_in_plain(client, "bob", "other")
        assert answer.error_code == 58
        assert answer.error_message == ("Cannot change principals during re-authentication from User.alice: User.bob")


def test_scram_credentials_are_altered_and_described(broker: OurBroker, client: WireClient) -> None:
    """A new user can authenticate, also after a restart. A deleted one cannot."""
    log_in_plain(client, "alice", "secret")
    salt = b"0123456789abcdef"
    upsertion = {
        "name": "carol",
        "mechanism": SHA_512,
        "iterations": 4096,
        "salt": salt,
        "salted_password": SHA_512.salted_password("new", salt, 4096),
    }
    altered = client.call(
        ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[ScramCredentialUpsertion(**upsertion)]
    )
    assert [(each.user, each.error_code) for each in altered.results] == [("carol", 0)]
    described = client.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[UserName(name="carol"), UserName(name="x")])
    assert [(each.user, each.error_code) for each in described.results] == [("carol", 0), ("x", 91)]
    for _ in range(2):
        with WireClient(HOST, broker.port) as other:
            assert log_in_scram(other, SHA_512, "carol", "new")[-1].error_code == 0
        broker.stop()
        broker.start()
    with WireClient(HOST, broker.port) as again:
        log_in_plain(again, "alice", "secret")
        deletion = ScramCredentialDeletion(name="carol", mechanism=SHA_512)
        again.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[deletion], upsertions=[])
    with WireClient(HOST, broker.port) as other:
        assert log_in_scram(other, SHA_512, "carol", "new")[-1].error_code == 58


def test_key_of_made_up_salts_survives_a_restart(broker: OurBroker) -> None:
    key = broker.log_dir / KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    broker.stop()
    broker.start()
    assert key.read_bytes() == before


def test_log_has_no_password(broker: OurBroker) -> None:
    assert "secret" not in broker.output


def test_plain_passwords_change_while_the_broker_runs(broker: OurBroker, client: WireClient) -> None:
    """New connections need the new password. Deleting the config restores that of the file."""
    log_in_plain(client, "alice", "secret")
    key = "listener.name.clients.plain.sasl.jaas.config"
    for entry, codes in ((f'{MODULE} required user_alice="new";', [58, 0]), (None, [0, 58])):
        change = AlterableConfig(name=key, config_operation=int(entry is None), value=entry)
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        [answer] = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert answer.error_code == 0
        for password, code in zip(("secret", "new"), codes, strict=True):
            with WireClient(HOST, broker.port) as other:
                assert log_in_plain(other, "alice", password).error_code == code
