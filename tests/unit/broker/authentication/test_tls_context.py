"""From ssl.* keys to a context."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.authentication.tls_context import TlsError, TlsSettings, openssl_name
from broker.config import load
from tests.support.certificates import PASSWORD, Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Path:
    return authority.issue("server")


def context(security_protocol: str = "SSL", **keys: object) -> ssl.SSLContext:
    overrides = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in keys.items()}
    return TlsSettings(load(overrides=overrides), "IN", security_protocol).context()


def test_stores(authority: Authority, server: Path) -> None:
    """PEM in a file, PEM in the key itself, PKCS12 under its own name and under the one that is Kafka's default."""
    key, *chain = server.read_text().split("-----BEGIN CERTIFICATE-----")
    inline = {
        "keystore_key": key,
        "keystore_certificate_chain": "".join(f"-----BEGIN CERTIFICATE-----{c}" for c in chain),
    }
    store = server.with_suffix(".p12")
    for keys in (
        {"keystore_type": "PEM", "keystore_location": server},
        {"keystore_type": "PEM", **inline},
        {"keystore_type": "PKCS12", "keystore_location": store, "keystore_password": PASSWORD},
        {"keystore_location": store, "keystore_password": PASSWORD},
    ):
        made = context(**keys)
        assert made.verify_mode == ssl.CERT_NONE
        assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_clients_certificates(authority: Authority, server: Path) -> None:
    pem = {"keystore_type": "PEM", "keystore_location": server, "truststore_type": "PEM"}
    trusted = pem | {"truststore_location": authority.path, "client_auth": "required"}
    assert context(**trusted).verify_mode == ssl.CERT_REQUIRED
    assert len(context(**trusted).get_ca_certs()) == 1
    assert context(**trusted | {"client_auth": "requested"}).verify_mode == ssl.CERT_OPTIONAL
    # as in Kafka, unless it is said of the listener itself
    assert context("SASL_SSL", **trusted).verify_mode == ssl.CERT_NONE
    own = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in trusted.items()}
    config = load(overrides=own | {"listener.name.in.ssl.client.auth": "required"})
    assert TlsSettings(config, "IN", "SASL_SSL").context().verify_mode == ssl.CERT_REQUIRED
    store = {"truststore_type": "PKCS12", "truststore_location": server.with_suffix(".p12")}
    assert context(**trusted | store | {"truststore_password": PASSWORD}).get_ca_certs()


def test_versions_and_ciphers(server: Path) -> None:
    pem = {"keystore_type": "PEM", "keystore_location": server}
    made = context(
        **pem,
        enabled_protocols="TLSv1.2",
        cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256",
    )
    assert made.maximum_version == ssl.TLSVersion.TLSv1_2
    older = [each["name"] for each in made.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert older == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_suites_decide_about_versions(server: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A version with no suite is not served, and what cannot be kept out is told."""
    pem = {"keystore_type": "PEM", "keystore_location": server}
    older, newer = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"
    only_older = context(**pem, cipher_suites=f"{older},TLS_EMPTY_RENEGOTIATION_INFO_SCSV")
    assert only_older.maximum_version == ssl.TLSVersion.TLSv1_2
    assert not caplog.records
    only_newer = context(**pem, cipher_suites=newer)
    assert only_newer.minimum_version == ssl.TLSVersion.TLSv1_3
    assert "TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256" in caplog.text
    caplog.clear()
    all_newer = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    both = context(**pem, cipher_suites=f"{all_newer},{older}")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert not caplog.records


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names_of_suites(suite: str, name: str) -> None:
    assert openssl_name(suite) == name


def test_refused(server: Path, tmp_path: Path) -> None:
    """In a line for people, and without a password."""
    old = tmp_path / "old.jks"
    old.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for keys, message in (
        ({}, "ssl.keystore.location is not set"),
        ({"keystore_location": tmp_path / "missing"}, "No such file"),
        ({"keystore_location": old, "keystore_password": "hidden"}, "ssl.keystore.password: its password is wrong"),
        ({"keystore_location": server.with_suffix(".p12"), "keystore_password": "hidden"}, "password is wrong"),
        ({"keystore_location": empty, "keystore_type": "PEM"}, "ssl"),
        ({"keystore_location": server, "keystore_type": "PEM", "enabled_protocols": "SSLv3"}, "SSLv3"),
        ({"keystore_location": server, "keystore_type": "PEM", "cipher_suites": "TLS_NO_WITH_NO"}, "cipher"),
        ({"keystore_location": server, "keystore_type": "PEM", "cipher_suites": "AES128-SHA"}, "AES128-SHA"),
        (
            {
                "keystore_location": server,
                "keystore_type": "PEM",
                "cipher_suites": "TLS_AES_128_GCM_SHA256",
                "enabled_protocols": "TLSv1.2",
            },
            "none for the versions",
        ),
    ):
        with pytest.raises(TlsError) as refused:
            context(**keys)
        assert message in str(refused.value)
        assert "hidden" not in str(refused.value)
