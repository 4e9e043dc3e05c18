"""Properties of clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.properties import for_kafka_python, for_librdkafka, read_properties


def test_properties_file_is_parsed(tmp_path: Path) -> None:
    """Comments and empty lines are skipped; values may contain equals signs."""
    file = tmp_path / "client.properties"
    file.write_text("# a comment\n\n security.protocol = SASL_SSL\nsasl.password=a=b\n! another\n")
    assert read_properties(file) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}


def test_java_syntax_of_files(tmp_path: Path) -> None:
    """Most files have login modules on several lines. Passwords and paths contain escapes."""
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


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa=\xc3\xa4\r\nb=1", b"a=\xe4\rb=1\r", b"a=\xe4\n\nb=1"])
def test_files_of_other_systems(tmp_path: Path, data: bytes) -> None:
    """UTF-8 with a byte order mark, Latin-1, and any line ends."""
    (tmp_path / "client").write_bytes(data)
    assert read_properties(tmp_path / "client") == {"a": "ä", "b": "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b\n=c", "client:2: 'c' is not KEY=VALUE"),
        ("a=b\n\na=\\u12", "client:3: malformed"),
        ("# \xff\na=\0", "client:2: "),
    ],
)
def test_bad_line_is_an_error_with_its_position(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "client").write_text(text, "latin-1")
    with pytest.raises(UsageError, match=expected):
        read_properties(tmp_path / "client")


def test_properties_of_java_clients_are_translated() -> None:
    """The usual ones have the meaning that they have there."""
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
def test_properties_of_a_jvm_are_rejected(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=key):
        for_librdkafka({key: value})


def test_properties_are_translated_for_kafka_python() -> None:
    """Those of authentication and trust. Tuning of librdkafka is ignored."""
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
def test_security_properties_kafka_python_lacks_are_errors(key: str) -> None:
    """None of them is ignored silently."""
    with pytest.raises(UsageError, match=key):
        for_kafka_python({key: "x"})
