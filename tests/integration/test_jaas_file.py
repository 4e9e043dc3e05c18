"""Clients authenticate as users of the JAAS file that KAFKA_OPTS names, as with Kafka's scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.messages.metadata import METADATA
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain
from tests.support.wire import WireClient

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_users_of_the_file_authenticate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password fails. Kerberos, which such files also have, is not offered."""
    path = tmp_path / "kafka_jaas.conf"
    kerberos = f'{KERBEROS} required\n useKeyTab=true keyTab="/none" principal="kafka/localhost@REALM";'
    path.write_text(
        f'KafkaServer {{\n{kerberos}\n{SCRAM} required\n username="a";\n{PLAIN} required\n user_alice="secret";\n}};\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={path}")
    port, plain = free_port(), free_port()
    properties = {
        "listeners": f"PLAIN://{HOST}:{plain},SASL://{HOST}:{port}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,GSSAPI,SCRAM-SHA-256",
        "sasl.kerberos.service.name": "kafka",
    }
    broker = OurBroker(tmp_path / "broker", properties, port=plain)
    try:
        with WireClient(HOST, port) as client:
            assert log_in_plain(client, "alice", "secret").error_code == 0
            assert [each.port for each in client.call(METADATA, 12, topics=[]).brokers] == [port]
        with WireClient(HOST, port) as client:
            assert log_in_plain(client, "alice", "other").error_code != 0
        with WireClient(HOST, port) as client:
            offered = client.call(SASL_HANDSHAKE, 1, mechanism="GSSAPI")
            assert (offered.error_code, offered.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
        assert "GSSAPI (Kerberos) IS NOT SUPPORTED" in broker.output
    finally:
        broker.stop()
