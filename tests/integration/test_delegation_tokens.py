"""Delegation tokens from creation to expiry, with stock clients."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Struct
from security.sasl.scram_credential import ScramMechanism
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain, scram_final
from tests.support.wire import WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISM = ScramMechanism.SCRAM_SHA_256


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    port = free_port()
    broker = OurBroker(
        tmp_path_factory.mktemp("tokens"),
        {
            "listeners": f"CLIENTS://{HOST}:{port}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.clients.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret";',
            "delegation.token.secret.key": "of this cluster",
            "connection.failed.authentication.delay.ms": "50",
        },
        port=port,
    )
    yield broker
    broker.stop()


@pytest.fixture
def alice(broker: OurBroker) -> Iterator[WireClient]:
    with WireClient(HOST, broker.port) as client:
        log_in_plain(client, "alice", "secret")
        yield client


def log_in(client: WireClient, token: Struct) -> Struct:
    """Authenticate by SCRAM with a token; return the last response."""
    assert client.call(SASL_HANDSHAKE, 1, mechanism=MECHANISM.sasl_name).error_code == 0
    bare = f"n={token.token_id},r=clientnonce,tokenauth=true"
    challenge = bytes(client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,{bare}".encode()).auth_bytes)
    password = b64encode(bytes(token.hmac)).decode()
    return client.call(SASL_AUTHENTICATE, 2, auth_bytes=scram_final(MECHANISM, bare, challenge, password))


def created(client: WireClient, max_lifetime_ms: int = -1) -> Struct:
    owner = {"owner_principal_type": None, "owner_principal_name": None}
    return client.call(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=max_lifetime_ms, **owner)


def test_token_authenticates_as_its_owner_until_it_expires(broker: OurBroker, alice: WireClient) -> None:
    """A client with the token acts as alice, but cannot create further tokens."""
    token = created(alice, 100_000)
    assert token.error_code == 0
    with WireClient(HOST, broker.port) as client:
        answer = log_in(client, token)
        assert answer.error_code == 0
        assert 90_000 < answer.session_lifetime_ms <= 100_000
        assert created(client).error_code == 64
    described = alice.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens
    assert [(each.token_id, each.principal_name) for each in described] == [(token.token_id, "alice")]
    assert alice.call(EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=-1).error_code == 0
    assert alice.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens == []
    with WireClient(HOST, broker.port) as client:
        assert log_in(client, token).error_code == 58


def test_token_survives_a_restart(broker: OurBroker, alice: WireClient) -> None:
    token = created(alice)
    broker.stop()
    broker.start()
    with WireClient(HOST, broker.port) as client:
        assert log_in(client, token).error_code == 0


def test_token_id_is_no_user_name(broker: OurBroker, alice: WireClient) -> None:
    """librdkafka does not send the tokenauth extension, so the broker looks for a user of that name."""
    token = created(alice)
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": MECHANISM.sasl_name,
            "sasl.username": token.token_id,
            "sasl.password": b64encode(bytes(token.hmac)).decode(),
            "error_cb": lambda error: failures.append(str(error)),
        }
    )
    producer.poll(5)
    assert any("invalid credentials" in failure for failure in failures)
