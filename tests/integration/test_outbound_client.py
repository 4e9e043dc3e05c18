"""The outbound client with a running broker: each security protocol, sessions that end, faults of the network."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.network.outbound_errors import ConnectionFailed, LoginFailed
from broker.network.outbound_security import OutboundSecurity, inter_broker_security
from config import load
from config.errors import ConfigError
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from tests.support.brokers import HOST, OurBroker, free_port
from tests.support.certificates import Authority
from tests.support.data_client import batch
from tests.support.outbound import OutboundDriver

_MODULES = "org.apache.kafka.common.security"
PLAIN = f'{_MODULES}.plain.PlainLoginModule required username="broker" password="secret" user_broker="secret";'
SCRAM = f'{_MODULES}.scram.ScramLoginModule required username="alice" password="secret";'
TOKEN = f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
#: A broker accepts another login after a second at the earliest.
SESSION_MS = 1_500
REQUEST = METADATA.request(topics=[])
MECHANISMS = {"SCRAM": "SCRAM-SHA-512", "TOKEN": "OAUTHBEARER"}


@dataclass
class Stage:
    """A broker, its configuration, and the ports of its listeners."""

    properties: dict[str, str]
    ports: dict[str, int]

    def security(self, listener: str, **changes: str) -> OutboundSecurity:
        """The security of a listener, by the same configuration as the broker's."""
        mechanism = MECHANISMS.get(listener, "PLAIN")
        own = {"inter.broker.listener.name": listener, "sasl.mechanism.inter.broker.protocol": mechanism}
        changed = {key.replace("__", "."): value for key, value in changes.items()}
        return inter_broker_security(load(overrides={**self.properties, **own, **changed}))

    def client(self, listener: str, **changes: str) -> OutboundDriver:
        return OutboundDriver(self.ports[listener], self.security(listener, **changes))


@pytest.fixture(scope="module")
def stage(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("outbound")
    ports = {name: free_port() for name in ("CLEAR", "MUTUAL", "LOGIN", "SCRAM", "TOKEN", "SHORT")}
    properties = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": (
            "CLEAR:PLAINTEXT,MUTUAL:SSL,LOGIN:SASL_SSL,SCRAM:SASL_PLAINTEXT,TOKEN:SASL_SSL,SHORT:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "CLEAR",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("server")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.path),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": SCRAM,
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": TOKEN,
        "listener.name.login.plain.sasl.jaas.config": PLAIN,
        "listener.name.short.plain.sasl.jaas.config": PLAIN,
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "50",
    }
    config = directory / "format.properties"
    config.write_text(f"node.id=1\nlog.dirs={directory / 'logs'}\n")
    user = ("--add-scram", "SCRAM-SHA-512=[name=alice,password=secret,iterations=4096]")
    subprocess.run([sys.executable, "-m", "pybroker", "format", "-c", str(config), *user], check=True)
    broker = OurBroker(directory, properties, port=ports["CLEAR"])
    yield Stage(properties, ports)
    broker.stop()


@pytest.mark.parametrize("listener", ["CLEAR", "MUTUAL", "LOGIN", "SCRAM", "TOKEN"])
def test_each_security_protocol(stage: Stage, listener: str) -> None:
    with stage.client(listener) as driver:
        pending = [driver.client.request(METADATA, REQUEST) for _ in range(20)]
        assert {driver.result(each).fields.error_code for each in pending} == {0}
        assert driver.client.is_ready


def test_records_go_there_and_back(stage: Stage) -> None:
    """Several megabytes, in batches larger than the client's receive buffer."""
    with stage.client("CLEAR") as driver:
        client = driver.client
        topic = CreatableTopic(name="outbound", num_partitions=1, replication_factor=1)
        driver.result(client.request(CREATE_TOPICS, CREATE_TOPICS.request(topics=[topic], timeout_ms=30_000)))
        data = [PartitionProduceData(index=0, records=batch(bytes(300_000)))]
        topics = [TopicProduceData(name="outbound", partition_data=data)]
        produce = PRODUCE.request(acks=-1, timeout_ms=30_000, topic_data=topics)
        produced = [client.request(PRODUCE, produce, at_most=9) for _ in range(10)]
        assert [driver.result(each).fields.responses[0].partition_responses[0].base_offset for each in produced] == [
            *range(10)
        ]
        wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 << 20)]
        topics = [FetchTopic(topic="outbound", partitions=wanted)]
        fetch = FETCH.request(max_wait_ms=0, min_bytes=1, max_bytes=10 << 20, topics=topics)
        partition = driver.result(client.request(FETCH, fetch, at_most=12)).fields.responses[0].partitions[0]
    assert partition.high_watermark == 10
    assert len(partition.records) > 3_000_000


@pytest.mark.parametrize("listener", ["SHORT", "TOKEN"])
def test_session_is_renewed_before_it_ends(stage: Stage, listener: str) -> None:
    """The connection stays: no request fails over three lifetimes, of the listener's sessions or of tokens."""
    lived_s = f'{TOKEN[:-1]} unsecuredLoginLifetimeSeconds="2";'
    with stage.client(listener, **{"listener__name__token.oauthbearer.sasl.jaas.config": lived_s}) as driver:
        client = driver.client
        driver.result(client.request(METADATA, REQUEST))
        connection = client._connection
        until = time.monotonic() + 3 * SESSION_MS / 1000
        while time.monotonic() < until:
            assert driver.result(client.request(METADATA, REQUEST)).fields.error_code == 0
            driver.turn(0.05)
        assert client._connection is connection


def test_wrong_password_is_a_failed_login(stage: Stage) -> None:
    for listener, key in (("LOGIN", "login.plain"), ("SCRAM", "scram.scram-sha-512")):
        jaas = (PLAIN if listener == "LOGIN" else SCRAM).replace(' password="secret"', ' password="wrong"')
        security = stage.security(listener, **{f"listener__name__{key}.sasl.jaas.config": jaas})
        with OutboundDriver(stage.ports[listener], security) as driver:
            error = driver.error(driver.client.request(METADATA, REQUEST))
        assert isinstance(error, LoginFailed)
        assert "authentication failed: " in str(error)
        assert "wrong" not in str(error)


def test_security_protocol_of_another_listener(stage: Stage) -> None:
    with OutboundDriver(stage.ports["LOGIN"], stage.security("SCRAM")) as driver:
        assert isinstance(driver.error(driver.client.request(METADATA, REQUEST)), ConnectionFailed)


def test_mechanism_that_the_other_broker_lacks(stage: Stage) -> None:
    security = stage.security("SCRAM")
    with OutboundDriver(stage.ports["SHORT"], security) as driver:
        error = driver.error(driver.client.request(METADATA, REQUEST))
    assert isinstance(error, LoginFailed)
    assert "the listener accepts PLAIN, not SCRAM-SHA-512" in str(error)


def test_certificates_that_are_not_trusted(stage: Stage, tmp_path: Path) -> None:
    other = Authority(tmp_path, "stranger")
    for changes in (
        {"ssl__truststore__location": str(other.path)},  # of the other broker
        {"ssl__keystore__location": str(other.issue("client"))},  # our own
    ):
        with stage.client("MUTUAL", **changes) as driver:
            assert isinstance(driver.error(driver.client.request(METADATA, REQUEST)), ConnectionFailed)


def test_name_in_the_certificate_is_checked(stage: Stage) -> None:
    security = stage.security("LOGIN")
    with OutboundDriver(stage.ports["LOGIN"], security, host="localhost") as driver:
        error = driver.error(driver.client.request(METADATA, REQUEST))
    assert isinstance(error, ConnectionFailed)
    assert "mismatch" in str(error)
    security = stage.security("LOGIN", ssl__endpoint__identification__algorithm="")
    with OutboundDriver(stage.ports["LOGIN"], security, host="localhost") as driver:
        assert driver.result(driver.client.request(METADATA, REQUEST)).fields.error_code == 0


def test_plaintext_to_a_tls_listener_and_back(stage: Stage) -> None:
    for port, security in ((stage.ports["MUTUAL"], None), (stage.ports["CLEAR"], stage.security("MUTUAL"))):
        with OutboundDriver(port, security, connection_setup_timeout_ms=3_000) as driver:
            assert isinstance(driver.error(driver.client.request(METADATA, REQUEST)), ConnectionFailed)


def test_configuration_without_credentials_is_refused(stage: Stage) -> None:
    jaas = f'{_MODULES}.plain.PlainLoginModule required user_broker="secret";'
    with pytest.raises(ConfigError, match="no username and password"):
        stage.security("LOGIN", **{"listener__name__login.plain.sasl.jaas.config": jaas})
    with pytest.raises(ConfigError, match="not supported between brokers"):
        stage.security("LOGIN", sasl__mechanism__inter__broker__protocol="GSSAPI")
    with pytest.raises(ConfigError, match="no unsecuredLoginStringClaim_sub"):
        stage.security("LOGIN", sasl__mechanism__inter__broker__protocol="OAUTHBEARER")
    with pytest.raises(ConfigError, match=r"truststore\.location"):
        stage.security("MUTUAL", ssl__truststore__location="/no/such/file")
