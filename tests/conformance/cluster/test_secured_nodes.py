"""Members, Apache Kafka's brokers and its controllers connect to each other with each security protocol."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.membership.kafka_nodes import QUIET, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sasl import Provider

pytestmark = pytest.mark.full_size

OURS, THEIRS = 1, 2
CONTROLLER, INNER = "CONTROLLER", "INNER"
_MODULES = "org.apache.kafka.common.security"
_TOKENS = f"{_MODULES}.oauthbearer."
#: The principals with the rights of a broker. No other may register, fetch as a follower or send envelopes.
NODE, NODE_CERTIFICATE = "User:node", "User:CN=node,OU=tests,C=DE"


class Controller(KafkaController):
    """A controller with a user of SCRAM, which may read tokens and their keys."""

    _format_options = (
        *KafkaController._format_options,
        *("--add-scram", "SCRAM-SHA-256=[name=node,password=secret]"),
        *("--add-scram", "SCRAM-SHA-512=[name=node,password=secret]"),
    )

    def _where_keys_of_tokens_may_be(self) -> list[str]:
        return _allowed(self._properties)


class Other(OtherBroker):
    """A broker of Apache Kafka that may read tokens."""

    def _where_keys_of_tokens_may_be(self) -> list[str]:
        return _allowed(self._properties)


def _allowed(properties: Mapping[str, str]) -> list[str]:
    """Return the options of the JVM for the tokens' places: it reads them from no other."""
    urls = sorted({value for key, value in properties.items() if key.endswith(".url")})
    files = [each.removeprefix("file://") for each in urls]
    option = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    return [f"{option}.urls={','.join(urls)}", f"{option}.files={','.join(files)}"] if urls else []


def secured(protocol: str, mechanism: str, authority: Authority, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of all nodes. Clients need no login."""
    jaas = {
        "PLAIN": f'{_MODULES}.plain.PlainLoginModule required username="node" password="n" user_node="n";',
        "OAUTHBEARER": f"{_TOKENS}OAuthBearerLoginModule required;",
    }
    scram = f'{_MODULES}.scram.ScramLoginModule required username="node" password="secret";'
    properties = {
        "listener.security.protocol.map": f"{CONTROLLER}:{protocol},{INNER}:{protocol},PLAINTEXT:PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"{NODE_CERTIFICATE if protocol == 'SSL' else NODE};User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.path),
        "ssl.client.auth": "required" if protocol == "SSL" else "none",
    }
    if mechanism:
        properties |= {
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
        }
        for listener in (CONTROLLER, INNER):
            own = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl"
            properties[f"{own}.jaas.config"] = jaas.get(mechanism, scram)
            if mechanism == "OAUTHBEARER":
                properties |= {f"{own}.{key}": value for key, value in tokens.items()}
    return properties


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """The keys of a mechanism for signed tokens of a provider, which lie in files."""
    provider, token = Provider(tmp_path), tmp_path / "token"
    token.write_text(provider.token(sub="node", iss="https://provider", aud="brokers"))
    return {
        "login.callback.handler.class": f"{_TOKENS}OAuthBearerLoginCallbackHandler",
        "server.callback.handler.class": f"{_TOKENS}OAuthBearerValidatorCallbackHandler",
        "oauthbearer.token.endpoint.url": token.as_uri(),
        "oauthbearer.jwks.endpoint.url": provider.url,
        "oauthbearer.expected.issuer": "https://provider",
        "oauthbearer.expected.audience": "brokers",
    }


@contextmanager
def cluster(directory: Path, properties: Mapping[str, str]) -> Iterator[tuple[MemberBroker, OtherBroker]]:
    """Start a controller and both kinds of brokers. Brokers connect to each other at listeners of their own."""
    homes = [directory / name for name in ("controller", "ours", "theirs")]
    for home in homes:
        home.mkdir()
    ports = [free_port() for _ in range(4)]

    def listeners(clients: int, brokers: int) -> dict[str, str]:
        return {
            **properties,
            "listeners": f"PLAINTEXT://{HOST}:{clients},{INNER}://{HOST}:{brokers}",
            "inter.broker.listener.name": INNER,
        }

    of_controller = {key: value for key, value in properties.items() if ".inner." not in key}
    with (
        Controller(homes[0], of_controller) as controller,
        MemberBroker(homes[1], controller.port, listeners(*ports[:2]), port=ports[0]) as member,
        Other(homes[2], controller.port, listeners(*ports[2:]), port=ports[2]) as other,
    ):
        yield member, other


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SSL", ""),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER"),
    ],
)
def test_nodes_log_in_at_each_other(tmp_path: Path, tokens: Mapping[str, str], protocol: str, mechanism: str) -> None:
    """Each broker follows the other, and the member forwards to the controller."""
    properties = secured(protocol, mechanism, Authority(tmp_path), tokens)
    with cluster(tmp_path, properties) as (member, other):
        admin = AdminClient({**QUIET, "bootstrap.servers": member.bootstrap})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers), equal_to=2)
        for leader, follower in ((OURS, THEIRS), (THEIRS, OURS)):
            name = uuid.uuid4().hex
            topic = NewTopic(name, 1, replica_assignment=[[leader, follower]], config={"min.insync.replicas": "2"})
            admin.create_topics([topic])[name].result(60)
            assert _failures(member, other, name) == []


def _failures(member: MemberBroker, other: OtherBroker, topic: str) -> list[object]:
    """Produce records that both brokers must have; return the errors."""
    producer = Producer({**QUIET, "bootstrap.servers": f"{member.bootstrap},{other.bootstrap}", "acks": "all"})
    failed: list[object] = []
    for number in range(20):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    return failed
