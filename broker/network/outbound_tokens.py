"""The bearer tokens with which a broker logs in at other nodes (OAUTHBEARER), from where Apache Kafka has them.

- Without sasl.login.callback.handler.class they are unsigned, from the options of the JAAS entry, for development.
- With OAuthBearerLoginCallbackHandler they come from sasl.oauthbearer.token.endpoint.url: a file, which is read at each
  login, or a provider that grants them to a client id and its secret.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from broker.network.outbound_token_endpoint import TokenEndpoint, TokenUnavailable
from config.errors import ConfigError, Problem
from config.sasl import OAUTHBEARER, jaas_entries
from config.values import ConfigValue, Password
from runtime.log_limit import LimitedLog
from security.sasl.client import BearerClient
from security.sasl.unsecured_login import UnsecuredLogin

if TYPE_CHECKING:
    from config import BrokerConfig

log = logging.getLogger(__name__)

_JAVA = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED = f"{_JAVA}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_HANDLERS = tuple(f"{_JAVA}{part}OAuthBearerLoginCallbackHandler" for part in ("", "secured."))
_HANDLER = "sasl.login.callback.handler.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE = "sasl.oauthbearer.scope"


def bearer_exchanges(config: BrokerConfig, listener_name: str) -> Callable[[], BearerClient]:
    """Return a function that begins a login at a listener. Blocks: it gets a first token. Raises ConfigError."""
    token = _Source(config, listener_name).token()
    return lambda: BearerClient(token())


class _Source:
    """The configuration of the tokens for a listener."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self._listener_name = listener_name
        entries = jaas_entries(config, listener_name, OAUTHBEARER) or []
        self._options = entries[0].options if entries else {}

    def token(self) -> Callable[[], str]:
        """Return a function that returns a token."""
        handler = self._text(_HANDLER) or _UNSECURED
        if handler == _UNSECURED:
            return self._unsecured()
        if handler not in _HANDLERS:
            raise self._problem(_HANDLER, "Java classes are not supported, but for Apache Kafka's own", _HANDLERS[0])
        url = urlsplit(self._text(_URL))
        try:
            if url.scheme == "file":
                return _TokenFile(Path(url2pathname(url.path))).token
            if url.scheme in ("http", "https"):
                return self._granted()
        except TokenUnavailable as error:
            raise self._problem(_URL, str(error), "a token for the broker") from None
        raise self._problem(_URL, "the broker's tokens come from there", "https://..., http://..., file:///...")

    def _unsecured(self) -> Callable[[], str]:
        try:
            login = UnsecuredLogin(self._options)
        except ValueError as error:
            raise self._problem("sasl.jaas.config", str(error), 'unsecuredLoginStringClaim_sub="..."') from None
        return lambda: login.token(round(time.time() * 1000))

    def _granted(self) -> Callable[[], str]:
        client_id = self._text(_CLIENT_ID) or self._options.get("clientId", "")
        secret = self._text(_CLIENT_SECRET) or self._options.get("clientSecret", "")
        if not client_id or not secret:
            raise self._problem(_CLIENT_ID, f"the provider needs it, and {_CLIENT_SECRET}", "id and secret")
        scope = self._text(_SCOPE) or self._options.get("scope", "")
        endpoint = TokenEndpoint(self._text(_URL), client_id, secret, scope, self._value)
        endpoint.start()
        return endpoint.token

    def _value(self, key: str) -> ConfigValue:
        return self._config.get_for_mechanism(self._listener_name, OAUTHBEARER, key)

    def _text(self, key: str) -> str:
        value = self._value(key)
        return value.value if isinstance(value, Password) else str(value or "")

    def _problem(self, key: str, reason: str, allowed: str) -> ConfigError:
        name = f"listener.name.{self._listener_name.lower()}.oauthbearer.{key}"
        value = self._value(key)
        return ConfigError(Problem(name, None if isinstance(value, Password) else self._text(key), reason, allowed))


class _TokenFile:
    """A token in a file, which somebody else renews. Raises TokenUnavailable if the file cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = LimitedLog(log, lines=1, seconds=30)  # each login reads the file
        try:
            self._token = self._read()
        except (OSError, ValueError) as error:
            raise TokenUnavailable(f"no token can be read: {error}") from None

    def token(self) -> str:
        """Return the file's token, or the last one if it cannot be read."""
        try:
            self._token = self._read()
        except (OSError, ValueError) as error:
            self._log.warning("No token for logins at other nodes can be read, so the old one stays: %s", error)
        return self._token

    def _read(self) -> str:
        token = self._path.read_text().strip()
        if not token:
            raise ValueError(f"{self._path} is empty")
        return token
