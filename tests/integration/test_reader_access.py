"""Readers and writers of records on secured listeners: TLS, client certificates, SASL."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, ScramCredentialUpsertion
from pybroker.source.errors import AccessDenied
from pybroker.source.reader import Reader
from security.sasl.scram_credential import ScramMechanism
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import PASSWORD, Authority
from tests.support.data_client import DataClient
from tests.support.ports import free_port

_SECURITY = "org.apache.kafka.common.security"
PLAIN = f"{_SECURITY}.plain.PlainLoginModule"
SCRAM = f"{_SECURITY}.scram.ScramLoginModule"
BEARER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
ALL = {"topics": ["orders"], "pattern": None, "assigned": None}


class SecuredBroker(OurBroker):
    """A broker with secured listeners; `ports` by listener."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.ports = {name: free_port() for name in ("TLS", "MUTUAL", "LOGIN")}
        port = free_port()
        listeners = [f"PLAINTEXT://{HOST}:{port}", *(f"{name}://{HOST}:{at}" for name, at in self.ports.items())]
        super().__init__(
            directory,
            {
                "listeners": ",".join(listeners),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("server")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.path),
                "listener.name.mutual.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret";',
                "listener.name.login.oauthbearer.sasl.jaas.config": f"{BEARER} required;",
                "connection.failed.authentication.delay.ms": "10",
            },
            port=port,
        )
        with DataClient(HOST, self.port) as client:
            client.create_topic("orders")
            for mechanism in ScramMechanism:
                salted = mechanism.salted_password("secret", b"0123456789abcdef", 4096)
                user = ScramCredentialUpsertion(
                    name="bob",
                    mechanism=mechanism,
                    iterations=4096,
                    salt=b"0123456789abcdef",
                    salted_password=salted,
                )
                altered = client.call(ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [user]})
                assert altered.results[0].error_code == 0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("broker"), authority) as running:
        yield running


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as reader:
        yield reader


@pytest.fixture
def tls(broker: SecuredBroker, authority: Authority) -> dict[str, str]:
    return {
        "bootstrap.servers": f"{HOST}:{broker.ports['TLS']}",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(authority.path),
        "ssl.truststore.type": "PEM",
        "request.timeout.ms": "60000",  # retries cannot change authentication errors, so they are raised earlier
    }


@pytest.fixture
def sasl(broker: SecuredBroker, tls: dict[str, str]) -> dict[str, str]:
    return {**tls, "bootstrap.servers": f"{HOST}:{broker.ports['LOGIN']}", "security.protocol": "SASL_SSL"}


def token(**claims: object) -> str:
    """An unsigned token."""
    parts = ({"alg": "none"}, {"sub": "carol", "exp": time.time() + 600, "iat": time.time(), **claims})
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*encoded, ""))


def password(module: str, user: str, password: str = "secret") -> str:
    return f'{module} required username="{user}" password="{password}";'


def assert_works(reader: Reader, properties: dict[str, str]) -> bool:
    """Write a row and read it with all kinds of requests."""
    import pyarrow as pa

    row = pa.record_batch([pa.array([b"value"], pa.binary())], names=["value"])
    [[*_, before]] = reader.ask("topic_ends", properties=properties, **ALL)
    reader.send_batches("write_topic", iter([row]), columns=["value"], topic="orders", properties=properties)
    wanted = {"topic": "orders", "partition": 0, "start": before, "end": before + 1, "fail_on_data_loss": True}
    found = list(reader.batches("read_topic", ("value",), properties=properties, **wanted))
    return [value for batch in found for value in batch.column("value").to_pylist()] == [b"value"]


@pytest.mark.parametrize(
    ("mechanism", "module", "user"),
    [("PLAIN", PLAIN, "alice"), ("SCRAM-SHA-256", SCRAM, "bob"), ("SCRAM-SHA-512", SCRAM, "bob")],
)
def test_password_authenticates(reader: Reader, sasl: dict[str, str], mechanism: str, module: str, user: str) -> None:
    sasl |= {"sasl.mechanism": mechanism, "sasl.jaas.config": password(module, user)}
    assert assert_works(reader, sasl)

    sasl["sasl.jaas.config"] = password(module, user, "hidden")
    with pytest.raises(AccessDenied, match=rf"kafka\.sasl\.jaas\.config: .*{user} .*{mechanism}: .*") as denied:
        reader.ask("topic_ends", properties=sasl, **ALL)
    assert "hidden" not in str(denied.value)


def test_token_authenticates(reader: Reader, sasl: dict[str, str], tmp_path: Path) -> None:
    """Given in a property or in a file."""
    sasl |= {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f'{BEARER} required token="{token()}";'}
    assert assert_works(reader, sasl)

    path = tmp_path / "token"
    path.write_text(token())
    sasl |= {"sasl.jaas.config": f"{BEARER} required;", "sasl.oauthbearer.token.endpoint.url": path.as_uri()}
    assert assert_works(reader, sasl)

    path.write_text(token(exp=1))
    with pytest.raises(AccessDenied, match=r"kafka\.sasl\.jaas\.config: .* does not accept the token: .*invalid_token"):
        reader.ask("reach_broker", properties={**sasl, "client.id": "another"})


def test_unsupported_mechanism_is_an_error(reader: Reader, broker: SecuredBroker, tls: dict[str, str]) -> None:
    tls |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": password(PLAIN, "alice")}
    nobody_asks = {**tls, "bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(AccessDenied, match=r"kafka\.(security\.protocol|sasl\.mechanism): "):
        reader.ask("reach_broker", properties=nobody_asks)


def test_certificate_of_the_broker_is_checked(reader: Reader, tls: dict[str, str], tmp_path: Path) -> None:
    assert assert_works(reader, tls)

    tls["ssl.truststore.location"] = str(Authority(tmp_path, "somebody-else").path)
    with pytest.raises(AccessDenied, match=r"kafka\.ssl\.truststore\.location: the certificate of .* is not accepted"):
        reader.ask("topic_ends", properties=tls, **ALL)


def test_certificate_of_the_client_is_sent(
    reader: Reader, broker: SecuredBroker, authority: Authority, tls: dict[str, str]
) -> None:
    tls["bootstrap.servers"] = f"{HOST}:{broker.ports['MUTUAL']}"
    with pytest.raises(AccessDenied, match=r"kafka\.ssl\.keystore\.location: "):
        reader.ask("topic_ends", properties=tls, **ALL)

    store = authority.issue("client").with_suffix(".p12")
    tls |= {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD, "ssl.keystore.type": "PKCS12"}
    assert assert_works(reader, tls)
