"""Stores of keys and certificates: PKCS12 and JKS, detected from the file.

Java, too, looks at the file, not only at ssl.keystore.type: with the type JKS, Kafka's default, it also reads a PKCS12
file. Recent keytools write PKCS12 unless -storetype is given.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from security import java_keystore
from security.java_keystore import KeystoreError, WrongPassword

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

TYPES = ("JKS", "PKCS12", "PEM")
"""All supported types, as values of ssl.keystore.type and ssl.truststore.type."""

_READ = "a JKS or PKCS12 store"
#: The length of a line in PEM (RFC 7468).
_PEM_LINE = 64
#: The beginning of any PFX (RFC 7292): a sequence, its length in one of its forms, and the version, 3.
_PKCS12 = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
_WITH_KEY = "a store with a private key and its certificate (keytool -list: PrivateKeyEntry)"


class StoreRefused(Exception):
    """Why a store cannot be used.

    Key without a listener's prefix, value (None: not to be shown), problem, and allowed values.
    """

    def __init__(self, key: str, value: str | None, reason: str, allowed: str) -> None:
        what = key if value is None else f"{key}={value}"
        super().__init__(f"{what}: {reason}; allowed: {allowed}")
        self.key = key
        self.value = value
        self.reason = reason
        self.allowed = allowed


@dataclass(frozen=True, slots=True, repr=False)
class Store:
    """A configured store; `kind`, the prefix of its keys, is ssl.keystore or ssl.truststore."""

    kind: str
    path: str
    data: bytes
    password: str | None

    def identity(self, key_password: str | None) -> tuple[bytes, bytes]:
        """Return the first private key and its certificates, in PEM. Raises StoreRefused.

        In JKS a key has a password of its own; without one it is the store's. In PKCS12 it is always the store's.
        """
        if self._is_jks:
            return self._jks_identity(key_password)
        store = self._pkcs12()
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        if store.key is None or store.cert is None:
            raise self._refused("it has no private key with its certificate", _WITH_KEY)
        if key_password not in (None, self.password):
            raise self._wrong_password("ssl.key.password", "the key in")
        certificates = [store.cert, *store.additional_certs]
        return (
            store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates),
        )

    def trusted(self) -> str:
        """Return all certificates, in PEM. Raises StoreRefused."""
        if self._is_jks:
            # As in Java, a key's own certificate is trusted, but not the certificates above it in the chain.
            return _pem([each.certificates[0] for each in self._jks_entries() if each.certificates]).decode()
        store = self._pkcs12()
        from cryptography.hazmat.primitives.serialization import Encoding

        certificates = [each.certificate for each in store.additional_certs]
        if store.cert is not None:
            own = store.cert.certificate
            certificates = [own, *_without_chain(own, certificates)]
        return b"".join(each.public_bytes(Encoding.PEM) for each in certificates).decode()

    @property
    def _is_jks(self) -> bool:
        return self.data.startswith(java_keystore.MAGIC)

    def _refused(self, reason: str, allowed: str = _READ) -> StoreRefused:
        return StoreRefused(f"{self.kind}.location", self.path, reason, allowed)

    def _wrong_password(self, key: str, what: str) -> StoreRefused:
        return StoreRefused(key, None, f"wrong password for {what} {self.path}", "the right one")

    def _no_password(self) -> StoreRefused:
        reason = f"it is not set, and {self.path} needs one"
        return StoreRefused(f"{self.kind}.password", None, reason, "the store's password")

    def _jks_identity(self, key_password: str | None) -> tuple[bytes, bytes]:
        if self.password is None:
            raise self._no_password()
        entry = next((each for each in self._jks_entries() if each.protected_key and each.certificates), None)
        if entry is None:
            raise self._refused("it has no private key with its certificate", _WITH_KEY)
        try:
            key = java_keystore.private_key(entry, self.password if key_password is None else key_password)
        except WrongPassword:
            raise self._wrong_password("ssl.key.password", f"the key {entry.alias} in") from None
        except KeystoreError as error:
            raise self._refused(str(error)) from None
        return _pem_of("PRIVATE KEY", key), _pem(entry.certificates)

    def _jks_entries(self) -> list[java_keystore.Entry]:
        try:
            return java_keystore.entries(self.data, self.password)
        except WrongPassword:
            raise self._wrong_password(f"{self.kind}.password", "the store") from None
        except KeystoreError as error:
            raise self._refused(str(error)) from None

    def _pkcs12(self) -> PKCS12KeyAndCertificates:
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
        except ImportError as error:
            if not _PKCS12.match(self.data):
                raise self._refused("it is not a store") from None
            reason = f"it is a PKCS12 store, and {error}: install its reader with pip install 'pybroker[security]'"
            raise self._refused(reason, "PEM or JKS without this package") from None

        try:
            return load_pkcs12(self.data, self.password.encode() if self.password is not None else None)
        except ValueError:
            if not _PKCS12.match(self.data):
                raise self._refused("it is not a store") from None
            if _is_cut_off(self.data):
                raise self._refused("it is truncated") from None
            if self.password is None:
                raise self._no_password() from None
            raise self._wrong_password(f"{self.kind}.password", "the store") from None
        except (TypeError, UnsupportedAlgorithm) as error:
            raise self._refused(f"it cannot be read: {error}") from None


def _without_chain(certificate: Certificate, others: list[Certificate]) -> list[Certificate]:
    """Return the other certificates, each once, without the chain of this one.

    A trusted one of the chain is in the store twice.
    """
    left = list(others)
    while certificate.issuer != certificate.subject:
        above = next((each for each in left if each.subject == certificate.issuer), None)
        if above is None:
            break
        left.remove(above)
        certificate = above
    return left


def _is_cut_off(data: bytes) -> bool:
    """Return whether a PFX is longer, by its first length field, than the data."""
    short = data[1]
    if short == 0x80:  # an indefinite length
        return False
    if short < 0x80:
        return len(data) < 2 + short
    size = short & 0x7F
    return len(data) < 2 + size + int.from_bytes(data[2 : 2 + size])


def _pem(certificates: tuple[bytes, ...] | list[bytes]) -> bytes:
    return b"".join(_pem_of("CERTIFICATE", each) for each in certificates)


def _pem_of(kind: str, der: bytes) -> bytes:
    """Return a key or a certificate as PEM (RFC 7468)."""
    text = b64encode(der).decode()
    lines = [text[start : start + _PEM_LINE] for start in range(0, len(text), _PEM_LINE)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", "")).encode()
