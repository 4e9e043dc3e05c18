"""Properties of the client."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.properties import for_kafka_python, for_librdkafka, read_properties


def test_file_of_properties(tmp_path: Path) -> None:
    """Comments and empty lines are left out; a value may have equals signs."""
    file = tmp_path / "client.properties"
    file.write_text("# a comment\n\n security.protocol = SASL_SSL\nsasl.password=a=b\n! another\n")
    assert read_properties(file) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}


def test_java_syntax_of_files(tmp_path: Path) -> None:
    """Login modules stand on several lines in most files there are; passwords and paths have escapes."""
    file = tmp_path / "client.properties"
    file.write_bytes(
        b"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        b'  username="ann" \\\n  password="caf\\u00e9";\nsecurity.protocol: SASL_PLAINTEXT\n'
        b"ssl.truststore.location C\\:\\\\ca.pem\r\nssl.endpoint.identification.algorithm=\n"
    )
    assert for_librdkafka(read_properties(file)) == {
        "sasl.username": "ann",
        "sasl.password": "caf\u00e9",
        "security.protocol": "SASL_PLAINTEXT",
        "ssl.ca.location": r"C:\ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=b\n=c", "client:2: 'c' is not KEY=VALUE"),
        ("a=b\n\na=\\u12", "client:3: malformed"),
        ("a=\xff", "client:1: "),
    ],
)
def test_line_that_is_none(tmp_path: Path, text: str, told: str) -> None:
    """With file and line."""
    (tmp_path / "client").write_text(text, "latin-1")
    with pytest.raises(UsageError, match=told):
        read_properties(tmp_path / "client")


def test_properties_of_java_clients() -> None:
    """The usual ones mean what they mean there."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": r'o.a.k.ScramLoginModule required username="ann" password="a\"b c";',
        "ssl.truststore.location": "ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
        "fetch.max.wait.ms": "7",
        "value.deserializer": "o.a.k.StringDeserializer",
    }
    assert for_librdkafka(given) == {
        "fetch.wait.max.ms": "7",
        "security.protocol": "SASL_SSL",
        "sasl.username": "ann",
        "sasl.password": 'a"b c',
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("key", "value"), [("sasl.jaas.config", "Krb5LoginModule required;"), ("ssl.truststore.type", "JKS")]
)
def test_what_only_a_jvm_has(key: str, value: str) -> None:
    """Told, and not passed over."""
    with pytest.raises(UsageError, match=key):
        for_librdkafka({key: value})


def test_properties_of_kafka_python() -> None:
    """Who one is and whom one trusts; what tunes librdkafka is nothing to it."""
    given = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "letmein",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "log_level": 0,
        "socket.timeout.ms": "9",
    }
    assert for_kafka_python(given) == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "letmein",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize("key", ["ssl.ca.pem", "sasl.oauthbearer.config"])
def test_what_kafka_python_does_not_have(key: str) -> None:
    """Of what keeps strangers out nothing is passed over."""
    with pytest.raises(UsageError, match=key):
        for_kafka_python({key: "x"})
