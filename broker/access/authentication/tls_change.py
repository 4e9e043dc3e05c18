"""Checks changes of a listener's key and trust stores while the broker runs (KIP-226, KIP-492, KIP-519).

As in Kafka 4.3.1, a store must be readable with its password, its settings must be consistent, and a new certificate
must have the old one's names. Messages have Kafka's text, which other tools parse, and then our own reason. Other ssl.*
keys take effect at once here, and only at the next start in Kafka: so unusable values are refused, too.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import Problem, rule
from config.tls_context import TlsError, TlsSettings
from security.alternative_names import alternative_names
from security.distinguished_name import distinguished_name

if TYPE_CHECKING:
    from config import BrokerConfig

_ERRORS = "org.apache.kafka.common"
_CONFIG, _INVALID = f"{_ERRORS}.config.ConfigException", f"{_ERRORS}.errors.InvalidConfigurationException"
_KAFKA = f"{_ERRORS}.KafkaException"
_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----([^-]*)-----END")
_BAD_TEXT = "Invalid PEM keystore configs"
_KEY_PASSWORD = "ssl.key.password"


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """The names that a new certificate may have, by the configuration at the start."""

    another_dn: bool
    other_sans: bool

    @classmethod
    def from_config(cls, config: BrokerConfig, listener_name: str) -> AllowedNames:
        dn, san = (config.get_for_listener(listener_name, f"ssl.allow.{name}.changes") for name in ("dn", "san"))
        return cls(bool(dn), bool(san))


@dataclass(frozen=True, slots=True)
class TlsChange:
    """A change from the current settings to others. `chain`: the current certificates, in PEM."""

    now: TlsSettings
    wanted: TlsSettings
    chain: bytes
    allowed: AllowedNames

    def problem(self) -> Problem | None:
        """Return why the change is refused, or None. Blocks: it reads files."""
        for sentence in (*_key_problems(self.wanted), *_trust_problems(self.wanted)):
            return _refused(_INVALID, sentence)
        try:
            secured, _ = self.wanted.made()
        except TlsError as error:
            return _refused(*_kafka_error(self.wanted, error.problem))
        for sentence in self._incompatible(secured.chain):
            return _refused(_CONFIG, sentence)
        return None

    def _incompatible(self, chain: bytes) -> Iterator[str]:
        try:
            before, after = _names(self.chain), _names(chain)
        except ValueError as error:
            yield str(error)
            return
        if before.dn != after.dn and not self.allowed.another_dn:
            yield f"Keystore DistinguishedName does not match:  existing={{DN={before.dn}}}, new={{DN={after.dn}}}"
        if not before.sans <= after.sans and not self.allowed.other_sans:
            existing, new = (_as_java_writes(names.sans) for names in (before, after))
            yield f"Keystore SubjectAltNames do not match:  existing={{SAN={existing}}}, new={{SAN={new}}}"
        if not _has_trust(self.now) and _has_trust(self.wanted):
            yield "Cannot add SSL truststore to an existing listener for which no truststore was configured."


def _refused(exception: str, sentence: str) -> Problem:
    """Return a reason within Kafka's message."""
    failed = f"Validation of dynamic config update of SSLFactory failed: {exception}: {sentence}"
    return rule(f"Invalid value {_CONFIG}: {failed} for configuration Invalid dynamic configuration")


def _key_problems(settings: TlsSettings) -> Iterator[str]:
    """Return the message for a key store with inconsistent settings."""
    kind, location = settings.text("ssl.keystore.type"), settings.text("ssl.keystore.location")
    password = settings.text("ssl.keystore.password")
    key, chain = settings.text("ssl.keystore.key"), settings.text("ssl.keystore.certificate.chain")
    if key is not None and kind != "PEM":
        yield f"SSL private key can be specified only for PEM, but key store type is {kind}."
    if key is not None and chain is None:
        yield "SSL private key is specified, but certificate chain is not specified."
    if key is None and chain is not None:
        yield "SSL certificate chain is specified, but private key is not specified"
    if key is not None and location is not None:
        yield "Both SSL key store location and separate private key are specified."
    if kind == "PEM" and password is not None:
        yield "SSL key store password cannot be specified with PEM format, only key password may be specified"
    if kind != "PEM" and location is not None and password is None:
        yield "SSL key store is specified, but key store password is not specified."


def _trust_problems(settings: TlsSettings) -> Iterator[str]:
    """Return the message for a trust store with inconsistent settings."""
    kind, location = settings.text("ssl.truststore.type"), settings.text("ssl.truststore.location")
    password, certificates = settings.text("ssl.truststore.password"), settings.text("ssl.truststore.certificates")
    if certificates is not None and kind != "PEM":
        yield f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}."
    if certificates is not None and location is not None:
        yield "Both SSL trust store location and separate trust certificates are specified."
    if kind == "PEM" and _has_trust(settings) and password is not None:
        yield "SSL trust store password cannot be specified for PEM format."
    if location is None and password is not None:
        yield "SSL trust store is not specified, but trust store password is specified."


def _has_trust(settings: TlsSettings) -> bool:
    return any(settings.text(f"ssl.truststore.{what}") is not None for what in ("location", "certificates"))


def _kafka_error(settings: TlsSettings, problem: Problem) -> tuple[str, str]:
    """Return the name and the message of Kafka's exception for an unusable store, with our reason."""
    store = next((kind for kind in ("ssl.keystore", "ssl.truststore") if kind in problem.key), None)
    if _KEY_PASSWORD in problem.key:
        store = "ssl.keystore"
    if store is None:
        return _CONFIG, problem.message
    kind, location = settings.text(f"{store}.type"), settings.text(f"{store}.location")
    reason = f"{problem.key}: {problem.reason}"
    if kind == "PEM" and location is not None:
        return _INVALID, f"Failed to load PEM SSL keystore {location}: {reason}"
    if kind == "PEM":
        trust = store == "ssl.truststore"
        return _INVALID, f"{'No matching CERTIFICATE entries in PEM file' if trust else _BAD_TEXT}: {reason}"
    if _KEY_PASSWORD in problem.key:
        return _KAFKA, f"java.security.UnrecoverableKeyException: Get Key failed: {reason}"
    return _KAFKA, f"Failed to load SSL keystore {location} of type {kind}: {reason}"


@dataclass(frozen=True, slots=True)
class _Names:
    """The subject of a certificate; alternative names by the number of their kind."""

    dn: str
    sans: frozenset[tuple[int, str]]


def _names(chain: bytes) -> _Names:
    first = _CERTIFICATE.search(chain)
    assert first is not None  # the chain is in use, or was just read
    certificate = b64decode(first[1])
    return _Names(distinguished_name(certificate), alternative_names(certificate))


def _as_java_writes(sans: frozenset[tuple[int, str]]) -> str:
    return "[" + ", ".join(f"[{kind}, {name}]" for kind, name in sorted(sans)) + "]"
