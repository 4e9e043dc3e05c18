"""Certificates for tests: an authority, what it has signed, and the stores in which clients and brokers keep it."""

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
    """Signs certificates; its own is at `path`, in PEM, and beside that in a trust store of Java's."""

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
        """Key and chain of a new certificate for CN=name, in one PEM file, NAME.pem; NAME.p12 stands beside it.

        Args:
            name: of whom it is for, and of the files.
            unit: theirs.
            file: another name for both files.
            sans: their other names.
            subject: instead of what is made of name and unit.
            days: from when to when it counts, from now.
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
    """Key and chain in PEM, the key so that only `password` opens it."""
    key = load_pem_private_key(pem, None)
    protection = BestAvailableEncryption(password.encode())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection) + pem[pem.index(b"-----BEGIN CERTIFICATE") :]
    )
