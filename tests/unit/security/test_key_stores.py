"""Stores of keys and certificates, in both of Java's formats."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from config import load
from config.tls_context import TlsError, TlsSettings
from security.key_stores import Store, StoreRefused
from tests.support.certificates import Authority

STORES = Path(__file__).resolve().parents[2] / "data" / "keystores"
PASSWORD, KEY_PASSWORD = "store-password", "key-password"
SERVER = {
    "ssl.keystore.location": str(STORES / "server.jks"),
    "ssl.keystore.password": PASSWORD,
    "ssl.key.password": KEY_PASSWORD,
}
TRUSTED = {
    "ssl.client.auth": "required",
    "ssl.truststore.location": str(STORES / "trusted.jks"),
    "ssl.truststore.password": PASSWORD,
}


def context(keys: dict[str, str]) -> ssl.SSLContext:
    return TlsSettings(load(overrides=keys), "IN", "SSL").context()


def store(name: str, password: str | None = PASSWORD, kind: str = "ssl.keystore") -> Store:
    return Store(kind, name, (STORES / name).read_bytes(), password)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Make a whole handshake in memory, and return the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    unfinished = list(ends)
    for _ in range(10):
        for end in list(unfinished):
            try:
                end.do_handshake()
                unfinished.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not unfinished
    return ends[0]


def test_jks_and_pkcs12_have_the_same_content() -> None:
    """The same key and chain; also with a trusted certificate beside them."""
    assert store("server.jks").identity(KEY_PASSWORD) == store("server.p12").identity(None)


def test_a_pkcs12_key_has_the_stores_password() -> None:
    """As in Java, another password is an error and not ignored."""
    assert store("server.p12").identity(PASSWORD) == store("server.p12").identity(None)
    with pytest.raises(StoreRefused, match=r"ssl\.key\.password: wrong password") as refused:
        store("server.p12").identity("another")
    assert "another" not in str(refused.value)


@pytest.mark.parametrize("store_type", [{}, {"ssl.keystore.type": "JKS"}, {"ssl.keystore.type": "pkcs12"}])
def test_clients_trust_a_jks_store(store_type: dict[str, str]) -> None:
    """With either type in the configuration: as in Java, the file decides."""
    client = ssl.create_default_context(cadata=store("trusted.jks", None).trusted())

    shown = shake_hands(context(SERVER | store_type), client).getpeercert()

    assert shown is not None
    assert ("DNS", "localhost") in shown["subjectAltName"]


def test_a_jks_truststore_verifies_client_certificates() -> None:
    """A certificate that its authority has signed is accepted."""
    server = context(SERVER | TRUSTED)
    assert [each["subject"] for each in server.get_ca_certs()] == [((("commonName", "authority"),),)]
    client = ssl.create_default_context(cadata=store("trusted.jks", None).trusted())
    key, chain = store("server.jks").identity(KEY_PASSWORD)
    from config.tls_context import _Identity, _load

    _load(client, _Identity(key, chain, None, "", None))
    assert shake_hands(server, client).version() == "TLSv1.3"


def test_key_has_the_stores_password_unless_it_has_its_own() -> None:
    """As keytool does by default."""
    assert store("ec.jks", "pässwörd").identity(None) == store("ec.jks", "pässwörd").identity("pässwörd")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"ssl.keystore.password": "hidden"},
            "ssl.keystore.password: wrong password for the store ",
        ),
        (
            {"ssl.key.password": "hidden"},
            "ssl.key.password: wrong password for the key localhost in ",
        ),
        (
            {"ssl.keystore.location": str(STORES / "trusted.jks")},
            f"ssl.keystore.location={STORES / 'trusted.jks'}: it has no private key with its certificate; allowed: a",
        ),
        (
            {"ssl.keystore.type": "BKS"},
            "ssl.keystore.type=BKS: an unsupported type of store; allowed: JKS, PKCS12, PEM",
        ),
        (TRUSTED | {"ssl.truststore.type": "Windows-ROOT"}, "ssl.truststore.type=Windows-ROOT: an unsupported"),
        (TRUSTED | {"ssl.truststore.password": "hidden"}, "ssl.truststore.password: wrong password"),
        (
            {"ssl.keystore.location": __file__},
            f"ssl.keystore.location={__file__}: it is not a store; all",
        ),
    ],
)
def test_errors_have_key_value_and_allowed_values(keys: dict[str, str], message: str) -> None:
    """They have no password."""
    with pytest.raises(TlsError) as refused:
        context(SERVER | keys)

    assert str(refused.value).startswith(message)
    assert "hidden" not in str(refused.value)


def test_keys_need_a_password() -> None:
    """As in Kafka; certificates do not."""
    with pytest.raises(StoreRefused, match=r"ssl.keystore.password: it is not set"):
        store("server.jks", None).identity(KEY_PASSWORD)


def test_damaged_store_is_rejected() -> None:
    """Truncated stores without a digest, too."""
    data = (STORES / "trusted.jks").read_bytes()
    with pytest.raises(StoreRefused, match=r"ssl.truststore.location=x: it is truncated; allowed: a JKS"):
        Store("ssl.truststore", "x", data[:-100], None).trusted()


@pytest.mark.parametrize("kept", [0, 1, 3, 40, 200, -1])
def test_truncated_pkcs12_is_not_a_wrong_password(kept: int) -> None:
    data = (STORES / "server.p12").read_bytes()
    with pytest.raises(StoreRefused, match=r"ssl.keystore.location=x: it is (not a store|truncated); allowed: a JKS"):
        Store("ssl.keystore", "x", data[:kept], PASSWORD).identity(None)


def trusted_by(path: Path) -> set[str]:
    certificates = load_pem_x509_certificates(
        Store("ssl.truststore", "x", path.read_bytes(), PASSWORD).trusted().encode()
    )
    return {each.subject.rfc4514_string().rpartition("CN=")[2].partition(",")[0] for each in certificates}


def test_the_chain_of_a_key_is_not_trusted(tmp_path: Path) -> None:
    """As in Java, its own certificate is trusted, and so are separate ones in the store."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    assert trusted_by(authority.path.with_suffix(".p12")) == {"authority"}
    server = authority.issue("server")
    assert trusted_by(server.with_suffix(".p12")) == {"server"}
    key, own = load_pem_private_key(server.read_bytes(), None), load_pem_x509_certificates(server.read_bytes())[0]
    chain = [authority.certificate, other.certificate, authority.certificate]
    assert isinstance(key, EllipticCurvePrivateKey)
    protection = BestAvailableEncryption(PASSWORD.encode())
    (tmp_path / "both.p12").write_bytes(serialize_key_and_certificates(b"server", key, own, chain, protection))
    assert trusted_by(tmp_path / "both.p12") == {"server", "authority", "other"}


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """JKS needs no library. For PKCS12 the error says what to install."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert shake_hands(context(SERVER), ssl.create_default_context(cadata=store("trusted.jks", None).trusted()))
    reason = r"it is a PKCS12 store, and .*: install its reader with pip install 'pybroker\[security\]'"
    with pytest.raises(StoreRefused, match=rf"^ssl\.keystore\.location=server\.p12: {reason}"):
        store("server.p12").identity(None)
    with pytest.raises(StoreRefused, match="it is not a store"):
        Store("ssl.truststore", "x", b"text", None).trusted()


def test_every_certificate_in_a_store_is_trusted(tmp_path: Path) -> None:
    """As in Java, without its authority; others of that authority are not."""
    authority = Authority(tmp_path)
    own, another = authority.issue("own"), authority.issue("another")
    trusted = {"type": "PKCS12", "location": str(own.with_suffix(".p12")), "password": PASSWORD}
    keys = {"ssl.client.auth": "required", **{f"ssl.truststore.{key}": value for key, value in trusted.items()}}

    def shown(certificate: Path) -> None:
        client = ssl.create_default_context(cadata=store("trusted.jks", None).trusted())
        client.load_cert_chain(certificate)
        shake_hands(context(SERVER | keys), client)

    shown(own)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shown(another)
