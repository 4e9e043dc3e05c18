"""Java's own key store format, in files that keytool has written."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key

from security.java_keystore import Entry, KeystoreError, WrongPassword, entries, private_key

STORES = Path(__file__).resolve().parents[2] / "data" / "keystores"
PASSWORD, KEY_PASSWORD = "store-password", "key-password"


def store(name: str) -> bytes:
    return (STORES / f"{name}.jks").read_bytes()


def sealed(body: bytes, password: str = PASSWORD) -> bytes:
    """Return a store with the digest of its password."""
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def test_key_belongs_to_its_certificate() -> None:
    """Key and chain are one entry, and a trusted certificate is another one."""
    trusted, own = sorted(entries(store("server"), PASSWORD), key=lambda each: each.alias)

    assert (trusted.alias, trusted.protected_key, len(trusted.certificates)) == ("caroot", None, 1)
    assert own.alias == "localhost"
    assert own.certificates[1:] == trusted.certificates
    key = load_der_private_key(private_key(own, KEY_PASSWORD), None)
    assert key.public_key() == x509.load_der_x509_certificate(own.certificates[0]).public_key()


def test_password_beyond_ascii_is_utf_16() -> None:
    """As Java's characters."""
    (entry,) = entries(store("ec"), "pässwörd")

    assert entry.alias == "schlüssel"
    key = load_der_private_key(private_key(entry, "pässwörd"), None)
    assert key.public_key() == x509.load_der_x509_certificate(entry.certificates[0]).public_key()


def test_trusted_certificates_are_read_without_a_password() -> None:
    """As in Java, their integrity is not checked then."""
    assert entries(store("trusted"), None) == entries(store("trusted"), PASSWORD)


def test_wrong_passwords_differ_from_damage() -> None:
    """The digest of the store, or of the key, is wrong."""
    with pytest.raises(WrongPassword):
        entries(store("server"), KEY_PASSWORD)
    own = next(each for each in entries(store("server"), PASSWORD) if each.protected_key)
    with pytest.raises(WrongPassword):
        private_key(own, PASSWORD)


def test_first_version_has_no_kinds_of_certificates() -> None:
    """Stores of JDK 1.1."""
    body = struct.pack(">4siiiH1sqi4s", b"\xfe\xed\xfe\xed", 1, 1, 2, 1, b"a", 7, 4, b"cert")

    assert entries(sealed(body), PASSWORD) == [Entry("a", (b"cert",))]


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">4sii", b"\xfe\xed\xfe\xed", 3, 0),
        struct.pack(">4sii", b"\xfe\xed\xfe\xed", 2, 0) + b"more",
        struct.pack(">4siii", b"\xfe\xed\xfe\xed", 2, 1, 2),
        struct.pack(">4sii", b"\xfe\xed\xfe\xed", 2, 2**31 - 1),
        struct.pack(">4siiiHq", b"\xfe\xed\xfe\xed", 2, 1, 3, 0, 7),
        struct.pack(">4siiiHqi", b"\xfe\xed\xfe\xed", 1, 1, 2, 0, 7, -1),
        struct.pack(">4siiiHqH5si", b"\xfe\xed\xfe\xed", 2, 1, 2, 0, 7, 5, b"PGP.1", 0),
        b"\xce\xce\xce\xce" + bytes(100),
    ],
)
def test_invalid_stores(body: bytes) -> None:
    """The digest of each store is right."""
    with pytest.raises(KeystoreError):
        entries(sealed(body), PASSWORD)


def test_truncated_store_is_rejected() -> None:
    """With and without a check of the digest."""
    data = store("server")
    for size in range(0, len(data), 7):
        for password in (PASSWORD, None):
            with pytest.raises(KeystoreError):
                entries(data[:size], password)


def test_truncated_key_is_rejected() -> None:
    """A key with an unknown encryption is rejected too."""
    own = next(each for each in entries(store("server"), PASSWORD) if each.protected_key)
    hidden = own.protected_key or b""
    for size in range(len(hidden)):
        with pytest.raises(KeystoreError):
            private_key(Entry("", (), hidden[:size]), KEY_PASSWORD)
    other = hidden.replace(bytes.fromhex("2b060104012a02110101"), bytes.fromhex("2b060104012a02130101"))
    with pytest.raises(KeystoreError):
        private_key(Entry("", (), other), KEY_PASSWORD)
