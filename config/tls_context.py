"""OpenSSL contexts from the ssl.* keys of a listener.

Key stores are PEM (a file, or the text in ssl.keystore.key and ssl.keystore.certificate.chain), PKCS12 or JKS
(security/key_stores.py).
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from config.broker_config import BrokerConfig
from config.errors import Problem
from config.values import ConfigValue, Password
from pybroker.text_files import pem_text
from runtime.foreign_files import UnreadableFile, read_whole
from security.key_stores import TYPES, Store, StoreRefused

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_3_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
#: A value among Java's cipher suites that signals safe renegotiation. The broker does not support renegotiation.
_NO_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_SUITES = "cipher suites by Java's names"
_LOCATION = "ssl.keystore.location"
#: The largest store. The limit matters because users who may change a listener's stores can name any file.
_MOST_BYTES = 16 << 20
#: What OpenSSL rejects as too weak in a key store by default, and Java accepts: SHA-1, keys below 2,048 bits.
_WEAK = frozenset({"CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL"})
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

KEYS = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.client.auth",
)


class TlsError(Exception):
    """Why a listener cannot use TLS as configured."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True, repr=False)
class _Identity:
    """A private key and its certificates, in PEM, and their origin: the configuration key and its value."""

    key: bytes
    chain: bytes
    password: str | None
    origin: str
    path: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Secured:
    """A context for new connections, and its certificates in PEM, its own one first."""

    context: ssl.SSLContext
    chain: bytes


class TlsSettings:
    """The ssl.* values of one listener; its own win over the common ones."""

    def __init__(self, config: BrokerConfig, listener_name: str, security_protocol: str) -> None:
        self._values: Mapping[str, ConfigValue] = {key: config.get_for_listener(listener_name, key) for key in KEYS}
        self._prefix = f"listener.name.{listener_name.lower()}."
        given = config.originals()
        self._own = frozenset(key for key in KEYS if self._prefix + key in given)
        # As in Kafka: clients that authenticate by SASL are asked for a certificate only if the listener's own key
        # requires it.
        self._asks = not security_protocol.startswith("SASL_") or "ssl.client.auth" in self._own

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the context is read from."""
        return tuple(filter(None, (self.text("ssl.keystore.location"), self.text("ssl.truststore.location"))))

    def context(self) -> ssl.SSLContext:
        """Return a context for new connections. Raises TlsError."""
        return self.secured().context

    def secured(self) -> Secured:
        """Return a context with its certificates. Raises TlsError."""
        secured, warnings = self.made()
        for warning in warnings:
            log.warning("%s%s", self._prefix, warning)
        return secured

    def equals(self, other: TlsSettings) -> bool:
        """Return whether all values are equal; the content of files is not compared."""
        return self._values == other._values and self._asks == other._asks

    def problem(self) -> Problem | None:
        """Return the error that `context` would raise, or None."""
        try:
            self.made()
        except TlsError as error:
            return error.problem
        return None

    def made(self) -> tuple[Secured, list[str]]:
        """Return the same as `secured`, and warnings: TLS 1.3 suites that were not configured, weak certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        self._choose_versions(context)
        others = self._choose_ciphers(context)
        try:
            identity = self._identity()
            trusted = self._trusted()
        except StoreRefused as error:
            raise self._error(error.key, error.value, error.reason, error.allowed) from None
        except OSError as error:
            raise self._error(_LOCATION, None, f"it cannot be read: {error.strerror or error}") from None
        weakness = self._load(context, identity)
        self._trust(context, trusted)
        warnings = []
        if others:
            names = ", ".join(sorted(others))
            warnings.append(
                f"ssl.cipher.suites: TLS 1.3 also offers {names}; to disable them, change ssl.enabled.protocols"
            )
        if weakness:
            warnings.append(f"ssl.keystore: {weakness}; it is used nevertheless, and clients may reject it")
        return Secured(context, identity.chain), warnings

    def client_context(self, *, check_hostname: bool) -> ssl.SSLContext:
        """Return a context for connections to other brokers: it trusts as the listener does, and shows its certificate.

        Raises TlsError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = check_hostname
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, any certificate in the store ends a chain
        self._choose_versions(context)
        self._choose_ciphers(context)
        try:
            identity = self._identity() if self._has_identity else None
            trusted = self._trusted()
        except StoreRefused as error:
            raise self._error(error.key, error.value, error.reason, error.allowed) from None
        if identity is not None:
            self._load(context, identity)
        if trusted is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            self._load_trusted(context, *trusted)
        return context

    @property
    def _has_identity(self) -> bool:
        return any(self.text(key) is not None for key in ("ssl.keystore.key", _LOCATION))

    def _error(self, key: str, value: str | None, reason: str, allowed: str = "") -> TlsError:
        return TlsError(Problem(f"{self._prefix}{key}" if key in self._own else key, value, reason, allowed))

    def text(self, key: str) -> str | None:
        """Return the text of a value, including passwords; None if it is not set."""
        value = self._values[key]
        if isinstance(value, Password):
            return value.value
        assert value is None or isinstance(value, str)
        return value

    def _read(self, key: str, path: str) -> bytes:
        try:
            return read_whole(path, _MOST_BYTES)
        except (OSError, ValueError, UnreadableFile) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise self._error(key, path, reason, "a file that can be read") from None

    def _choose_versions(self, context: ssl.SSLContext) -> None:
        names = self._values["ssl.enabled.protocols"]
        assert isinstance(names, tuple)
        versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
        if not versions:
            reason = "an unsupported version"
            raise self._error("ssl.enabled.protocols", ",".join(names), reason, ", ".join(_VERSIONS))
        context.minimum_version, context.maximum_version = min(versions), max(versions)

    def _choose_ciphers(self, context: ssl.SSLContext) -> frozenset[str]:
        """Offer only these ciphers, and no version without one of them.

        Return the offered ones that were not configured.
        """
        key = "ssl.cipher.suites"
        names = self._values[key]
        assert isinstance(names, tuple)
        suites = [name for name in names if name != _NO_SUITE]
        if not suites:
            return frozenset()
        older = [suite for suite in suites if "_WITH_" in suite]
        newer = frozenset(suites).difference(older)
        if unknown := newer - _TLS_1_3_SUITES:
            raise self._error(key, ",".join(names), f"{','.join(sorted(unknown))} is unknown", _SUITES)
        if older:
            try:
                context.set_ciphers(":".join(map(openssl_name, older)))
            except ssl.SSLError:
                raise self._error(key, ",".join(names), "OpenSSL has none of these ciphers", _SUITES) from None
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        if not newer:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if context.minimum_version > context.maximum_version:
            raise self._error(key, ",".join(names), "none of them is for a version in ssl.enabled.protocols", _SUITES)
        return _TLS_1_3_SUITES - newer if context.maximum_version == ssl.TLSVersion.TLSv1_3 else frozenset()

    def _identity(self) -> _Identity:
        key, chain = self.text("ssl.keystore.key"), self.text("ssl.keystore.certificate.chain")
        key_password = self.text("ssl.key.password")
        if key is not None and chain is not None:
            return _Identity(_as_pem(key), _as_pem(chain), key_password, "ssl.keystore.key", None)
        location = self.text("ssl.keystore.location")
        if location is None:
            allowed = "a file with the private key and its certificates"
            raise self._error(_LOCATION, None, "it is not set; a server needs a certificate", allowed)
        if self._store_type("ssl.keystore") == "PEM":
            data = pem_text(self._read(_LOCATION, location)).encode()
            return _Identity(data, data, key_password, _LOCATION, location)
        return _Identity(*self._store("ssl.keystore", location).identity(key_password), None, _LOCATION, location)

    def _store_type(self, kind: str) -> str:
        """Return JKS, PKCS12 or PEM; as in Java, lower case is accepted."""
        given = str(self._values[f"{kind}.type"])
        if given.upper() not in TYPES:
            raise self._error(f"{kind}.type", given, "an unsupported type of store", ", ".join(TYPES))
        return given.upper()

    def _store(self, kind: str, location: str) -> Store:
        return Store(kind, location, self._read(f"{kind}.location", location), self.text(f"{kind}.password"))

    def _load(self, context: ssl.SSLContext, identity: _Identity) -> str | None:
        """Load the identity into the context. Return what OpenSSL rejects as too weak, or None.

        If this lowers the context's security level, the lower level also holds for clients' certificates. They are
        never checked at level 0, which accepts MD5 and RSA keys of 512 bits, unlike Java.
        """
        try:
            weakness = _load_even_weak(context, identity)
        except (ssl.SSLError, ValueError, TypeError) as error:
            where = "the private key" if identity.path is None else f"the private key in {identity.path}"
            if b"ENCRYPTED" not in identity.key:
                reason = f"its private key and certificates cannot be used: {_reason(error)}"
                raise self._error(identity.origin, identity.path, reason, "both, in PEM, of one another") from None
            if identity.password is None:
                reason = f"it is not set, and {where} is encrypted"
                raise self._error("ssl.key.password", None, reason, "the key's password") from None
            opens = _opens(identity.key, identity.password)
            if opens is None:
                reason = f"with it {where} and its certificates cannot be used: {_reason(error)}"
                raise self._error("ssl.key.password", None, reason, "that of the key") from None
            if opens:
                reason = f"its certificates cannot be used: {_reason(error)}"
                raise self._error(identity.origin, identity.path, reason, "those of its private key") from None
            reason = f"wrong password for {where}"
            raise self._error("ssl.key.password", None, reason, "the right one") from None
        if context.security_level == 0 and self._verify_mode != ssl.CERT_NONE:
            reason = f"it is too weak for a listener that requests client certificates: {weakness}"
            allowed = "one of 1,024 bits or more that is not signed with SHA-1 or MD5, or ssl.client.auth=none"
            raise self._error(identity.origin, identity.path, reason, allowed)
        return weakness

    @property
    def _verify_mode(self) -> ssl.VerifyMode:
        """Return whether clients are asked for a certificate."""
        return _VERIFY[str(self._values["ssl.client.auth"])] if self._asks else ssl.CERT_NONE

    def _trusted(self) -> tuple[str, str | None, str] | None:
        """Return the configuration key, its value, and the certificates in PEM; None if the system's are trusted.

        As in Kafka, the store is read even if clients are not asked for certificates: an unreadable one is an error.
        """
        certificates = self.text("ssl.truststore.certificates")
        if certificates is not None:
            return "ssl.truststore.certificates", None, pem_text(certificates.encode())
        key = "ssl.truststore.location"
        location = self.text(key)
        if location is None:
            return None
        if self._store_type("ssl.truststore") == "PEM":
            return key, location, pem_text(self._read(key, location))
        return key, location, self._store("ssl.truststore", location).trusted()

    def _trust(self, context: ssl.SSLContext, trusted: tuple[str, str | None, str] | None) -> None:
        if trusted is not None:
            self._load_trusted(context, *trusted)
        if self._verify_mode == ssl.CERT_NONE:
            return
        if trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = self._verify_mode
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, any certificate in the store ends a chain

    def _load_trusted(self, context: ssl.SSLContext, key: str, value: str | None, certificates: str) -> None:
        try:
            context.load_verify_locations(cadata=certificates)
        except (ssl.SSLError, ValueError, TypeError) as error:
            reason = f"its certificates cannot be used: {_reason(error)}"
            raise self._error(key, value, reason, "certificates") from None


def _as_pem(text: str) -> bytes:
    return pem_text(text.encode()).encode()


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite before TLS 1.3.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256.
    """
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    cipher = cipher.removesuffix("_SHA256") if cipher.startswith("CHACHA20") else cipher
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


def _reason(error: Exception) -> str:
    """Return OpenSSL's message, without the place in its source."""
    return (error.reason if isinstance(error, ssl.SSLError) else "") or str(error)


def _opens(key: bytes, password: str) -> bool | None:
    """Return whether a password decrypts a private key in PEM; None if no library is installed to check it."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:  # pybroker[security] is not installed
        return None

    try:
        load_pem_private_key(key, password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _load_even_weak(context: ssl.SSLContext, identity: _Identity) -> str | None:
    """Load weak certificates, too, as in Apache Kafka: at OpenSSL's level 1, or at 0. Return the weakness, or None."""
    try:
        _load(context, identity)
    except ssl.SSLError as error:
        if error.reason not in _WEAK:
            raise
        offered = [cipher["name"] for cipher in context.get_ciphers() if cipher["name"] not in _TLS_1_3_SUITES]
        try:
            _lower_level(context, offered, 1)
            _load(context, identity)
        except ssl.SSLError as still:
            if still.reason not in _WEAK:
                raise
            _lower_level(context, offered, 0)
            _load(context, identity)
        return error.reason.lower().replace("_", " ")
    return None


def _lower_level(context: ssl.SSLContext, offered: list[str], level: int) -> None:
    """Lower the security level, with the same ciphers."""
    context.set_ciphers(":".join([*offered, f"@SECLEVEL={level}"]))


def _load(context: ssl.SSLContext, identity: _Identity) -> None:
    with _file_of(identity.chain + b"\n" + (identity.key if identity.key != identity.chain else b"")) as path:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(path, password=identity.password or "")


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """Yield the path of a file in memory, for OpenSSL, which reads only files. No other user can read it."""
    descriptor = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
