"""Certificates for tests: an authority, its certificates, and the stores that clients and brokers read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-password"
_LOOPBACK = x509.IPAddress(IPv4Address("127.0.0.1"))


class Authority:
    """An authority that signs certificates. `path` is its own certificate in PEM; a Java trust store lies beside it."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = generate_private_key(SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key, is_authority=True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        trusted = PKCS12Certificate(self.certificate, name.encode())
        store = serialize_java_truststore([trusted], BestAvailableEncryption(PASSWORD.encode()))
        self.path.with_suffix(".p12").write_bytes(store)

    def issue(
        self,
        name: str,
        *,
        unit: str = "tests",
        file: str = "",
        sans: Sequence[x509.GeneralName] = (_LOOPBACK,),
        subject: x509.Name | None = None,
        days: tuple[float, float] = (-1, 2),
    ) -> Path:
        """Return the path of NAME.pem: key and chain of a new certificate for CN=name. NAME.p12 lies beside it.

        Args:
            name: the subject's common name, and the name of the files.
            unit: the subject's organizational unit.
            file: another name for both files.
            sans: subject alternative names.
            subject: replaces the subject made of name and unit.
            days: first and last day of validity, counted from now.
        """
        key = generate_private_key(SECP256R1())
        if subject is None:
            subject = x509.Name(
                [
                    x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
                    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
                    x509.NameAttribute(NameOID.COMMON_NAME, name),
                ]
            )
        certificate = self._signed(subject, key, is_authority=False, sans=sans, days=days)
        path = self._directory / f"{file or name}.pem"
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
            + self.certificate.public_bytes(Encoding.PEM)
        )
        store = serialize_key_and_certificates(
            name.encode(), key, certificate, [self.certificate], BestAvailableEncryption(PASSWORD.encode())
        )
        path.with_suffix(".p12").write_bytes(store)
        return path

    def _signed(
        self,
        subject: x509.Name,
        key: EllipticCurvePrivateKey,
        *,
        is_authority: bool,
        sans: Sequence[x509.GeneralName] = (_LOOPBACK,),
        days: tuple[float, float] = (-1, 2),
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        begin, end = (now + timedelta(days=each) for each in days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(sans), critical=False)
            .sign(self._key, SHA256())
        )


def encrypted(pem: bytes, password: str) -> bytes:
    """Return key and chain in PEM, with a key that only `password` opens."""
    key = load_pem_private_key(pem, None)
    protection = BestAvailableEncryption(password.encode())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection) + pem[pem.index(b"-----BEGIN CERTIFICATE") :]
    )
