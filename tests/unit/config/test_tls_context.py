"""Contexts from the ssl.* keys."""

from __future__ import annotations

import os
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateBuilder, Name, NameAttribute, random_serial_number
from cryptography.x509.oid import NameOID

from config import load
from config.tls_context import TlsError, TlsSettings, openssl_name
from tests.support.certificates import PASSWORD, Authority, encrypted


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
    """PEM in a file, PEM in the key itself, PKCS12 with its own type and with Kafka's default type."""
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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\ufeff# Zertifikat für München\n", "# Autorité é\n"])
def test_pem_of_other_systems(authority: Authority, server: Path, tmp_path: Path, mark: str, end: str) -> None:
    """With a byte order mark, comments beyond ASCII, and other line ends, as Java reads it."""
    key, trusted = tmp_path / "key.pem", tmp_path / "ca.pem"
    key.write_bytes((mark + server.read_text()).replace("\n", end).encode())
    trusted.write_bytes((mark + authority.path.read_text()).replace("\n", end).encode())
    made = context(
        keystore_type="PEM", keystore_location=key,
        truststore_type="PEM", truststore_location=trusted, client_auth="required",
    )  # fmt: skip
    assert [dict(each["subject"][0]) for each in made.get_ca_certs()] != []


def test_weak_certificates_have_a_warning(server: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in Java, which does not check its own certificates: keys and digests that OpenSSL rejects by default."""
    weak = tmp_path / "weak.pem"
    weak.write_bytes(small_key())
    made = context(keystore_type="PEM", keystore_location=weak, cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert "listener.name.in.ssl.keystore: ee key too small; it is used nevertheless" in caplog.text
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {cipher["name"] for cipher in made.get_ciphers()}
    assert "AES128-SHA" not in {cipher["name"] for cipher in made.get_ciphers()}
    usual = context(keystore_type="PEM", keystore_location=server)
    assert made.security_level == 1 < usual.security_level
    weak.write_bytes(small_key(648))
    assert context(keystore_type="PEM", keystore_location=weak).security_level == 0


@pytest.mark.parametrize(("bits", "level"), [(1024, 1), (648, 0)])
def test_client_certificates_are_never_checked_at_level_0(
    authority: Authority, tmp_path: Path, bits: int, level: int
) -> None:
    """Level 0 accepts MD5 and RSA keys of 512 bits: a key store that needs it is rejected if clients are verified."""
    weak = tmp_path / "weak.pem"
    weak.write_bytes(small_key(bits))
    keys = {"keystore_type": "PEM", "keystore_location": weak, "truststore_type": "PEM"}
    keys |= {"truststore_location": authority.path, "client_auth": "requested"}
    assert context("SASL_SSL", **keys).security_level == level  # it does not request certificates
    if level:
        assert context(**keys).security_level == level
        return
    with pytest.raises(TlsError, match="too weak for a listener that requests client certificates") as refused:
        context(**keys)
    assert refused.value.problem.key == "ssl.keystore.location"


def small_key(bits: int = 1024) -> bytes:
    """Return an RSA key of 1,024 bits, or of 648, with a self-signed certificate, in PEM."""
    key = generate_private_key(65537, 1024) if bits == 1024 else key_of_648_bits()
    name = Name([NameAttribute(NameOID.COMMON_NAME, "old")])
    now = datetime.now(UTC)
    builder = CertificateBuilder(name, name, key.public_key(), random_serial_number(), now, now + timedelta(days=2))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + builder.sign(
        key, SHA256()
    ).public_bytes(Encoding.PEM)


def key_of_648_bits() -> RSAPrivateKey:
    """Return a key of two Mersenne primes: no library generates such a small one."""
    p, q = (1 << 521) - 1, (1 << 127) - 1
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = RSAPublicNumbers(65537, p * q)
    return RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key(
        unsafe_skip_rsa_key_validation=True
    )


def test_clients_certificates(authority: Authority, server: Path) -> None:
    pem = {"keystore_type": "PEM", "keystore_location": server, "truststore_type": "PEM"}
    trusted = pem | {"truststore_location": authority.path, "client_auth": "required"}
    assert context(**trusted).verify_mode == ssl.CERT_REQUIRED
    assert len(context(**trusted).get_ca_certs()) == 1
    assert context(**trusted | {"client_auth": "requested"}).verify_mode == ssl.CERT_OPTIONAL
    # As in Kafka, unless the listener's own key is set.
    assert context("SASL_SSL", **trusted).verify_mode == ssl.CERT_NONE
    own = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in trusted.items()}
    config = load(overrides=own | {"listener.name.in.ssl.client.auth": "required"})
    assert TlsSettings(config, "IN", "SASL_SSL").context().verify_mode == ssl.CERT_REQUIRED
    store = {"truststore_type": "PKCS12", "truststore_location": authority.path.with_suffix(".p12")}
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


def test_cipher_suites_limit_tls_versions(server: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A version without a cipher suite is not offered, and suites that cannot be disabled are reported."""
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


def test_rejected_settings(authority: Authority, server: Path, tmp_path: Path) -> None:
    """The error has the key, the listener's own if it is set, in one line and without a password."""
    old, empty = tmp_path / "old.jks", tmp_path / "empty.pem"
    old.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    empty.write_text("")
    endless, pipe = tmp_path / "endless", tmp_path / "pipe"
    os.close(os.open(endless, os.O_CREAT))
    os.truncate(endless, 1 << 40)
    os.mkfifo(pipe)
    other = tmp_path / "other.pem"
    key, chain = authority.issue("other").read_text(), server.read_text()
    other.write_text(key[: key.index("-----BEGIN CERTIFICATE")] + chain[chain.index("-----BEGIN CERTIFICATE") :])
    locked = tmp_path / "locked.pem"
    locked.write_bytes(encrypted(server.read_bytes(), "the-key's"))
    store = server.with_suffix(".p12")
    pem = {"keystore_type": "PEM", "keystore_location": server}
    trust = pem | {"truststore_location": store}
    for keys, name, message in (
        ({}, "ssl.keystore.location", "is not set"),
        ({"keystore_location": tmp_path / "missing"}, "ssl.keystore.location", "No such file"),
        ({"keystore_location": tmp_path}, "ssl.keystore.location", "Is a directory"),
        ({"keystore_location": "/dev/null"}, "ssl.keystore.location", "/dev/null is not a regular file"),
        ({"keystore_location": endless}, "ssl.keystore.location", "has more than 16777216 bytes"),
        (pem | {"truststore_location": pipe}, "ssl.truststore.location", "is not a regular file"),
        ({"keystore_type": "BKS", "keystore_location": store}, "ssl.keystore.type", "an unsupported type of store"),
        ({"keystore_location": old, "keystore_password": "hidden"}, "ssl.keystore.password", "wrong password"),
        ({"keystore_location": store, "keystore_password": "hidden"}, "ssl.keystore.password", "wrong password"),
        ({"keystore_location": store}, "ssl.keystore.password", "it is not set"),
        ({"keystore_location": server, "keystore_password": "hidden"}, "ssl.keystore.location", "it is not a store"),
        (pem | {"keystore_location": empty}, "ssl.keystore.location", "cannot be used"),
        (pem | {"keystore_location": other}, "ssl.keystore.location", "cannot be used: KEY_VALUES_MISMATCH"),
        (pem | {"keystore_location": locked, "key_password": "hidden"}, "ssl.key.password", "wrong password"),
        (pem | {"keystore_location": locked}, "ssl.key.password", "it is not set"),
        (trust | {"truststore_password": "hidden"}, "ssl.truststore.password", "wrong password"),
        (trust, "ssl.truststore.password", "it is not set"),
        (trust | {"truststore_type": "PEM"}, "ssl.truststore.location", "its certificates cannot be used"),
        (pem | {"truststore_type": "PEM", "truststore_certificates": "x"}, "ssl.truststore.certificates", "cannot be"),
        (pem | {"enabled_protocols": "SSLv3"}, "ssl.enabled.protocols", "an unsupported version"),
        (pem | {"cipher_suites": "TLS_NO_WITH_NO"}, "ssl.cipher.suites", "OpenSSL has none"),
        (pem | {"cipher_suites": "AES128-SHA"}, "ssl.cipher.suites", "AES128-SHA is unknown"),
        (
            pem | {"cipher_suites": "TLS_AES_128_GCM_SHA256", "enabled_protocols": "TLSv1.2"},
            "ssl.cipher.suites",
            "none of them is for a version",
        ),
    ):
        given = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in keys.items()}
        for prefix in ("", "listener.name.in."):
            config = load(overrides={prefix + key: value for key, value in given.items()})
            with pytest.raises(TlsError) as refused:
                TlsSettings(config, "IN", "SSL").context()
            assert refused.value.problem.key == (prefix + name if name in given else name)
            assert message in refused.value.problem.reason
            assert "hidden" not in str(refused.value)
            assert TlsSettings(config, "IN", "SSL").problem() == refused.value.problem
    assert context(**pem | {"keystore_location": locked, "key_password": "the-key's"})


def test_encrypted_key_without_cryptography(server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL decrypts it; if it cannot, the error is OpenSSL's."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(encrypted(server.read_bytes(), "the-key's"))
    keys = {"keystore_type": "PEM", "keystore_location": locked}
    assert context(**keys, key_password="the-key's")
    with pytest.raises(TlsError, match=r"^ssl\.key\.password: with it the private key in .* cannot be used: .+"):
        context(**keys, key_password="hidden")
