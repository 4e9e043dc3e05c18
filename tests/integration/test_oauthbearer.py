"""Authentication with bearer tokens: stock clients against a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from protocol.messages.metadata import METADATA
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port
from tests.support.sasl import Provider
from tests.support.wire import WireClient


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """A token provider for kafka-python that always returns the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oauthbearer")


@pytest.fixture(scope="module")
def provider(directory: Path) -> Provider:
    return Provider(directory)


@pytest.fixture(scope="module")
def unsigned_port() -> int:
    """The port of the listener that accepts unsigned tokens."""
    return free_port()


@pytest.fixture(scope="module")
def broker(directory: Path, provider: Provider, unsigned_port: int) -> Iterator[OurBroker]:
    port = free_port()
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    broker = OurBroker(
        directory,
        {
            "listeners": f"CLIENTS://{HOST}:{port},TRYING://{HOST}:{unsigned_port}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,TRYING:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": provider.url,
            "listener.name.trying.oauthbearer.sasl.jaas.config": (
                f'{login} required unsecuredValidatorRequiredScope="may-enter";'
            ),
            "sasl.oauthbearer.expected.audience": "brokers",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            "connection.failed.authentication.delay.ms": "50",
        },
        port=port,
    )
    yield broker
    broker.stop()


def log_in(client: WireClient, token: str) -> Any:
    assert client.call(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
    return client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,\1auth=Bearer {token}\1\1".encode())


def test_session_lasts_as_long_as_its_token(broker: OurBroker, provider: Provider) -> None:
    with WireClient(HOST, broker.port) as client:
        answer = log_in(client, provider.token(aud="brokers", exp=int(time.time()) + 100))
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
        assert 95_000 < answer.session_lifetime_ms <= 100_000
        assert client.call(METADATA, 12, topics=[]).brokers


def test_token_for_another_audience_is_refused(broker: OurBroker, provider: Provider) -> None:
    with WireClient(HOST, broker.port) as client:
        answer = log_in(client, provider.token(aud="others"))
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b'{"status":"invalid_token"}')
        answer = client.call(SASL_AUTHENTICATE, 2, auth_bytes=b"\1")
        assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')


def test_kafka_python(broker: OurBroker, provider: Provider) -> None:
    common = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    producer = KafkaProducer(**common, sasl_oauth_token_provider=Tokens(provider.token(aud="brokers")))
    producer.send("t", b"value").get(20)
    producer.close()
    with pytest.raises(KafkaError):
        KafkaProducer(**common, sasl_oauth_token_provider=Tokens(provider.token(aud="x")), bootstrap_timeout_ms=3_000)


def test_librdkafka(broker: OurBroker, provider: Provider) -> None:
    token = provider.token(aud="brokers")
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 3600),
        }
    )
    producer.poll(1)
    producer.produce("t", b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert errors == [None]


def test_librdkafka_with_an_unsigned_token(broker: OurBroker, unsigned_port: int) -> None:
    """The listener is configured to accept it, and the log has a warning."""
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"{HOST}:{unsigned_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=bob scope=may-enter",
        }
    )
    producer.produce("t", b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert errors == [None]
    warnings = [line for line in broker.output.splitlines() if "UNSIGNED bearer tokens" in line]
    assert len(warnings) == 1
    assert "Listener TRYING" in warnings[0]


def test_unsigned_token_elsewhere_is_refused(broker: OurBroker, provider: Provider, unsigned_port: int) -> None:
    """By a listener for signed tokens, and without the right scope. That listener in turn refuses signed tokens."""
    unsigned, signed = provider.token(key="", algorithm="none", aud="brokers"), provider.token(scope=["may-enter"])
    for port, token, status in (
        (broker.port, unsigned, b"invalid_token"),
        (unsigned_port, unsigned, b"insufficient_scope"),
        (unsigned_port, signed, b"invalid_token"),
    ):
        with WireClient(HOST, port) as client:
            assert status in bytes(log_in(client, token).auth_bytes)
