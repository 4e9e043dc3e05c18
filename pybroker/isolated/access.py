"""Connect to a broker by TLS and SASL, with the properties of Kafka's Java client.

Errors name the option to change, as the user wrote it: `kafka.` and its name.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import tempfile
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from protocol.schema import Struct
from pybroker.source.errors import AccessDenied, UnusableOption
from pybroker.text_files import file_bytes, pem_text
from security.jaas import JaasError, LoginModule, login_module
from security.key_stores import TYPES, Store, StoreRefused
from security.sasl.client import BearerClient, ClientExchange, PlainClient, ScramClient, ServerRefused
from security.sasl.login import CredentialsRefused, MechanismRefused, login_requests
from security.sasl.scram import new_nonce
from security.sasl.scram_credential import BY_SASL_NAME

_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
#: The login module of each mechanism, without its package.
_MODULES = {
    "PLAIN": "PlainLoginModule",
    **dict.fromkeys(BY_SASL_NAME, "ScramLoginModule"),
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
#: Parts of OpenSSL's messages if the peer rejects a certificate, or requires one.
_ABOUT_CERTIFICATES = ("certificate", "unknown ca", "handshake failure", "access denied")
_JAAS, _TOKEN_URL = "kafka.sasl.jaas.config", "kafka.sasl.oauthbearer.token.endpoint.url"

Call = Callable[..., tuple[Struct, int]]
"""Send a request (API, newest version, request), and return the response and its version."""


class Access:
    """The properties for access; see source/client_properties.py. Errors: UnusableOption."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise UnusableOption(f"kafka.security.protocol: {protocol} is none of {', '.join(_PROTOCOLS)}")
        with_tls, with_sasl = _PROTOCOLS[protocol]
        self._tls = _tls_context(properties) if with_tls else None
        self._login = Login(properties) if with_sasl else None

    def secured(self, plain: socket.socket, host: str, address: str) -> socket.socket:
        """Return the socket, wrapped in TLS if the protocol has it. Errors: AccessDenied, OSError."""
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=host)
        except ssl.SSLError as error:
            raise _denied(error, address) or error from None

    def failed(self, error: OSError, address: str) -> AccessDenied | None:
        """Return whether the error is a TLS rejection, which may arrive after the handshake."""
        return _denied(error, address) if isinstance(error, ssl.SSLError) else None

    def log_in(self, call: Call, address: str) -> None:
        """Authenticate, if the protocol requires it. Errors: AccessDenied."""
        if self._login is not None:
            self._login(call, address)


#: Neither TLS nor SASL.
OPEN = Access({})


class Login:
    """SASL authentication (KIP-152) with sasl.mechanism and sasl.jaas.config. Errors: UnusableOption."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._mechanism = properties.get("sasl.mechanism", "").upper()
        if self._mechanism not in _MODULES:
            given = f"{self._mechanism} is not served" if self._mechanism else "it is not set"
            raise UnusableOption(f"kafka.sasl.mechanism: {given}; there are {', '.join(_MODULES)}")
        text = properties.get("sasl.jaas.config")
        if text is None:
            raise UnusableOption(f"{_JAAS} is not set: ...{_MODULES[self._mechanism]} required ...;")
        try:
            self._module = login_module(text)
        except JaasError as error:
            raise UnusableOption(f"{_JAAS}: {error}") from None
        if self._module.name.rpartition(".")[2] != _MODULES[self._mechanism]:
            wanted = _MODULES[self._mechanism]
            raise UnusableOption(f"{_JAAS}: {self._module.name} is not for {self._mechanism}, which has {wanted}")
        self._token_url = properties.get("sasl.oauthbearer.token.endpoint.url")
        self._exchange()  # report a missing option before any connection

    def __call__(self, call: Call, address: str) -> None:
        requests = login_requests(self._mechanism, self._exchange())
        try:
            api, most, request = next(requests)
            while True:
                response, _ = call(api, most, request)
                api, most, request = requests.send(response)
        except StopIteration:
            return
        except MechanismRefused as error:
            if error.enabled:
                known = ", ".join(error.enabled)
                raise AccessDenied(
                    f"kafka.sasl.mechanism: {address} does not support {self._mechanism}, only {known}"
                ) from None
            raise AccessDenied(f"kafka.security.protocol: {address} does not authenticate clients") from None
        except CredentialsRefused as error:
            raise AccessDenied(f"{_JAAS}: {address} does not accept {self._who}: {error}") from None
        except ServerRefused as error:
            raise AccessDenied(f"{_JAAS}: {address} and {self._who}: {error}") from None

    @property
    def _who(self) -> str:
        if self._mechanism == "OAUTHBEARER":
            return "the token"
        return f"{self._module.options['username']} with this password by {self._mechanism}"

    def _exchange(self) -> ClientExchange:
        if self._mechanism == "OAUTHBEARER":
            return BearerClient(_bearer_token(self._module, self._token_url))
        user, password = (_given(self._module, name) for name in ("username", "password"))
        if self._mechanism == "PLAIN":
            return PlainClient(user, password)
        by_token = self._module.options.get("tokenauth", "").lower() == "true"
        nonce = new_nonce(secrets.randbits)
        return ScramClient(BY_SASL_NAME[self._mechanism], user, password, nonce, by_token=by_token)


def _given(module: LoginModule, name: str) -> str:
    if name not in module.options:
        raise UnusableOption(f'{_JAAS}: {name}="..." is missing')
    return module.options[name]


def _bearer_token(module: LoginModule, url: str | None) -> str:
    """Return the token of the login module, or of a file, which is read each time as it may be renewed."""
    if url is None:
        return _given(module, "token")
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise UnusableOption(f"{_TOKEN_URL}: {url} is not file:///...: other URLs are not supported")
    return _read(_TOKEN_URL, unquote(parts.path)).decode(errors="replace").strip()


def _tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = _trusting(properties)
        if properties.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
            context.check_hostname = False
        key_password = properties.get("ssl.key.password")
        chain, key = properties.get("ssl.keystore.certificate.chain"), properties.get("ssl.keystore.key")
        location = properties.get("ssl.keystore.location")
        if chain is not None and key is not None:
            _load("kafka.ssl.keystore.key", context, chain.encode() + b"\n" + key.encode(), key_password)
        elif location is not None:
            name = "kafka.ssl.keystore.location"
            data = _read(name, location)
            if _is_pem(properties, "ssl.keystore", data):
                _load(name, context, pem_text(data).encode(), key_password)
            else:
                store = Store("kafka.ssl.keystore", location, data, properties.get("ssl.keystore.password"))
                found, certificates = store.identity(key_password)
                _load(name, context, certificates + b"\n" + found, None)
    except StoreRefused as error:
        raise UnusableOption(str(error)) from None
    return context


def _trusting(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context that trusts the given certificates, or the system's."""
    certificates = properties.get("ssl.truststore.certificates")
    name = "kafka.ssl.truststore.certificates"
    for key in ("ssl.truststore.location", "ssl.ca.location"):
        if certificates is None and (location := properties.get(key)) is not None:
            name = f"kafka.{key}"
            data = _read(name, location)
            if key == "ssl.ca.location" or _is_pem(properties, "ssl.truststore", data):
                certificates = pem_text(data)
            else:
                password = properties.get("ssl.truststore.password")
                certificates = Store("kafka.ssl.truststore", location, data, password).trusted()
    try:
        return ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise UnusableOption(f"{name}: these are not certificates in PEM: {error}") from None


def _is_pem(properties: Mapping[str, str], kind: str, data: bytes) -> bool:
    """Read a store by its type; without one, detect the type."""
    given = properties.get(f"{kind}.type")
    if given is None:
        return b"-----BEGIN " in data
    if given.upper() not in TYPES:
        raise UnusableOption(f"kafka.{kind}.type: {given} is none of {', '.join(TYPES)}")
    return given.upper() == "PEM"


def _load(name: str, context: ssl.SSLContext, pem: bytes, password: str | None) -> None:
    """Load certificates and their key. OpenSSL only reads files: this one is readable by its owner alone."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        try:
            # without a password OpenSSL would ask for one on the terminal
            context.load_cert_chain(file.name, password=password or "")
        except (ssl.SSLError, ValueError) as error:
            hint = "is kafka.ssl.key.password the right one?"
            raise UnusableOption(f"{name}: no certificate with its key can be read: {error}; {hint}") from None


def _read(name: str, path: str) -> bytes:
    try:
        return file_bytes(path)
    except OSError as error:
        raise UnusableOption(f"{name}: {path}: {error.strerror}") from None


def _denied(error: ssl.SSLError, address: str) -> AccessDenied | None:
    """Return the error for a permanent problem; None if the connection only broke."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessDenied(
            f"kafka.ssl.truststore.location: the certificate of {address} is not accepted: {error.verify_message}"
        )
    reason = (error.reason or "").replace("_", " ").lower()
    if "alert" in reason and any(each in reason for each in _ABOUT_CERTIFICATES):
        return AccessDenied(
            f"kafka.ssl.keystore.location: {address} does not accept this client's certificate: {reason}"
        )
    if "wrong version number" in reason or "record layer failure" in reason:
        return AccessDenied(f"kafka.security.protocol: {address} does not speak TLS")
    return None
