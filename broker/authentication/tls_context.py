"""From the ssl.* keys of a listener to what OpenSSL works with.

Key stores are PEM (a file, or the text itself in ssl.keystore.key and ssl.keystore.certificate.chain), PKCS12 or JKS
(security/key_stores.py).
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from broker.config import BrokerConfig
from broker.config.errors import Problem
from broker.config.values import ConfigValue, Password
from security.key_stores import TYPES, Store, StoreRefused

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_3_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
#: Stands among suites in Java, and says that renegotiation is safe: here there is none.
_NO_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
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
    """Why a listener cannot speak TLS as it is configured."""


@dataclass(frozen=True, slots=True, repr=False)
class _Identity:
    """A private key and its certificates, in PEM."""

    key: bytes
    chain: bytes
    password: str | None


class TlsSettings:
    """The ssl.* values of one listener, its own before all listeners'."""

    def __init__(self, config: BrokerConfig, listener_name: str, security_protocol: str) -> None:
        self._values: Mapping[str, ConfigValue] = {key: config.get_for_listener(listener_name, key) for key in KEYS}
        self._prefix = f"listener.name.{listener_name.lower()}."
        # As in Kafka: clients who say who they are by SASL are asked for a certificate only where that is said of
        # their listener.
        own_auth = f"{self._prefix}ssl.client.auth" in config.originals()
        self._asks = not security_protocol.startswith("SASL_") or own_auth

    @property
    def files(self) -> tuple[str, ...]:
        """The files that all this is read from."""
        return tuple(filter(None, (self._text("ssl.keystore.location"), self._text("ssl.truststore.location"))))

    def context(self) -> ssl.SSLContext:
        """A context for new connections. Raises TlsError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        try:
            self._choose_versions(context)
            self._choose_ciphers(context)
            _load(context, self._identity())
            self._trust(context)
        except (ssl.SSLError, ValueError, TypeError) as error:
            raise TlsError(f"{self._prefix}ssl.*: {error}") from None
        except StoreRefused as error:
            raise TlsError(str(error)) from None
        except OSError as error:
            raise TlsError(f"{error.filename}: {error.strerror}") from None
        return context

    def _text(self, key: str) -> str | None:
        value = self._values[key]
        if isinstance(value, Password):
            return value.value
        assert value is None or isinstance(value, str)
        return value

    def _choose_versions(self, context: ssl.SSLContext) -> None:
        names = self._values["ssl.enabled.protocols"]
        assert isinstance(names, tuple)
        versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
        if not versions:
            raise TlsError(f"ssl.enabled.protocols={','.join(names)}: {' and '.join(_VERSIONS)} are served")
        context.minimum_version, context.maximum_version = min(versions), max(versions)

    def _choose_ciphers(self, context: ssl.SSLContext) -> None:
        """Only these are offered, and no version that has none of them."""
        names = self._values["ssl.cipher.suites"]
        assert isinstance(names, tuple)
        suites = [name for name in names if name != _NO_SUITE]
        if not suites:
            return
        older = [suite for suite in suites if "_WITH_" in suite]
        newer = frozenset(suites).difference(older)
        if unknown := newer - _TLS_1_3_SUITES:
            raise TlsError(f"ssl.cipher.suites: {','.join(sorted(unknown))} is not known")
        if older:
            context.set_ciphers(":".join(map(openssl_name, older)))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        if not newer:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if context.minimum_version > context.maximum_version:
            raise TlsError("ssl.cipher.suites has none for the versions in ssl.enabled.protocols")
        others = _TLS_1_3_SUITES - newer
        if others and context.maximum_version == ssl.TLSVersion.TLSv1_3:
            log.warning(
                "%sssl.cipher.suites: TLS 1.3 is offered with %s, too; only ssl.enabled.protocols keeps them out",
                self._prefix,
                ", ".join(sorted(others)),
            )

    def _identity(self) -> _Identity:
        key, chain = self._text("ssl.keystore.key"), self._text("ssl.keystore.certificate.chain")
        key_password = self._text("ssl.key.password")
        if key is not None and chain is not None:
            return _Identity(key.encode(), chain.encode(), key_password)
        location = self._text("ssl.keystore.location")
        if location is None:
            raise TlsError(f"{self._prefix}ssl.keystore.location is not set: a server needs a certificate")
        if self._store_type("ssl.keystore") == "PEM":
            data = _read(location)
            return _Identity(data, data, key_password)
        return _Identity(*self._store("ssl.keystore", location).identity(key_password), None)

    def _store_type(self, kind: str) -> str:
        """JKS, PKCS12 or PEM, which may be in small letters, as in Java."""
        given = str(self._values[f"{kind}.type"])
        if given.upper() not in TYPES:
            raise TlsError(str(Problem(f"{kind}.type", given, "no such stores are read", ", ".join(TYPES))))
        return given.upper()

    def _store(self, kind: str, location: str) -> Store:
        return Store(kind, location, _read(location), self._text(f"{kind}.password"))

    def _trust(self, context: ssl.SSLContext) -> None:
        if not self._asks:
            return
        verify = _VERIFY[str(self._values["ssl.client.auth"])]
        if verify == ssl.CERT_NONE:
            return
        certificates = self._text("ssl.truststore.certificates")
        location = self._text("ssl.truststore.location")
        if certificates is None and location is not None:
            if self._store_type("ssl.truststore") == "PEM":
                certificates = _read(location).decode()
            else:
                certificates = self._store("ssl.truststore", location).trusted()
        if certificates is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            context.load_verify_locations(cadata=certificates)
        context.verify_mode = verify


def openssl_name(suite: str) -> str:
    """A cipher suite before TLS 1.3 as OpenSSL calls it: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is
    ECDHE-RSA-AES128-GCM-SHA256.
    """
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    cipher = cipher.removesuffix("_SHA256") if cipher.startswith("CHACHA20") else cipher
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _load(context: ssl.SSLContext, identity: _Identity) -> None:
    """OpenSSL reads files only; these are in memory, and nobody else's to read."""
    descriptor = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, identity.chain + b"\n" + (identity.key if identity.key != identity.chain else b""))
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=identity.password or "")
    finally:
        os.close(descriptor)
