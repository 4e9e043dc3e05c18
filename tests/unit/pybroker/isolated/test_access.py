"""Options for TLS and SASL: missing and invalid ones are reported before any connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.schema import Api, Struct
from pybroker.isolated.access import Access
from pybroker.source.errors import UnusableOption
from tests.support.certificates import PASSWORD, Authority

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hidden";'
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
STORES = Path(__file__).resolve().parents[3] / "data" / "keystores"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "TLS"}, "kafka.security.protocol: TLS is none of PLAINTEXT, SSL"),
        ({}, "kafka.sasl.mechanism: it is not set"),
        ({"sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism: GSSAPI is not served"),
        ({"sasl.mechanism": "PLAIN"}, "kafka.sasl.jaas.config is not set: ...PlainLoginModule"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]}, "not terminated by semi-colon"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": PLAIN}, "is not for SCRAM-SHA-256, which has ScramLo"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN.replace("password", "pass")}, 'password="..." is miss'),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{BEARER};"}, 'token="..." is missing'),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER};",
                "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
            },
            "kafka.sasl.oauthbearer.token.endpoint.url: https://issuer/token is not file:",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER};",
                "sasl.oauthbearer.token.endpoint.url": "file:///no/such/file",
            },
            "/no/such/file: No such file",
        ),
    ],
)
def test_incomplete_options_are_named(properties: dict[str, str], expected: str) -> None:
    with pytest.raises(UnusableOption) as refused:
        Access({"security.protocol": "SASL_PLAINTEXT", **properties})
    assert expected in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"ssl.truststore.location": "/no/such/file"}, "kafka.ssl.truststore.location: /no/such/file: No such file"),
        ({"ssl.truststore.type": "XYZ", "ssl.truststore.location": __file__}, "kafka.ssl.truststore.type: XYZ is none"),
        ({"ssl.truststore.certificates": "none"}, "kafka.ssl.truststore.certificates: these are not certificates"),
        ({"ssl.ca.location": __file__}, "kafka.ssl.ca.location: these are not certificates"),
        (
            {"ssl.keystore.location": __file__, "ssl.keystore.type": "PEM"},
            "kafka.ssl.keystore.location: no certificate",
        ),
        (
            {"ssl.truststore.location": str(STORES / "trusted.jks"), "ssl.truststore.password": "hidden"},
            "kafka.ssl.truststore.password: wrong password",
        ),
        (
            {"ssl.keystore.location": str(STORES / "server.p12"), "ssl.keystore.password": "hidden"},
            "kafka.ssl.keystore.password: wrong password",
        ),
    ],
)
def test_unreadable_stores_are_named(properties: dict[str, str], expected: str) -> None:
    with pytest.raises(UnusableOption) as refused:
        Access({"security.protocol": "SSL", **properties})
    assert expected in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_stores_of_all_kinds_are_read(authority: Authority) -> None:
    client = authority.issue("client")
    pem = client.read_text()
    for properties in (
        {"ssl.truststore.location": str(authority.path), "ssl.keystore.location": str(client)},
        {"ssl.truststore.location": str(client.with_suffix(".p12")), "ssl.truststore.password": PASSWORD},
        {"ssl.keystore.location": str(client.with_suffix(".p12")), "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.key": pem[: pem.index("-----BEGIN CERT")], "ssl.keystore.certificate.chain": pem},
        {"ssl.truststore.certificates": authority.path.read_text()},
        {"ssl.endpoint.identification.algorithm": ""},
    ):
        Access({"security.protocol": "SSL", **properties})


def test_token_of_a_file_is_read_each_time(tmp_path: Path) -> None:
    """It may have been renewed."""
    path = tmp_path / "a token"
    path.write_text("first\n")
    access = Access(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{BEARER};",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }
    )
    path.write_text("second\n")
    sent = []

    def call(api: Api, version: int, request: Struct) -> tuple[Struct, int]:
        sent.append(getattr(request, "auth_bytes", None))
        return api.response(), version

    access.log_in(call, "one:9092")
    assert sent == [None, b"n,,\1auth=Bearer second\1\1"]
