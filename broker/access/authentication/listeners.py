"""Sets up the authentication of each listener, by its security protocol."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.network.listener import CannotBind

if TYPE_CHECKING:
    from broker.access.authentication.sasl_listener import SaslListener
    from broker.access.authentication.services import AuthenticationServices
    from broker.network.connection import Connection
    from broker.network.listener import Listener
    from config import BrokerConfig
    from config.broker_config import Check
    from security.sasl.oauthbearer import Validate


log = logging.getLogger(__name__)

#: The packages of `pybroker[security]`: PyJWT alone cannot verify signatures of key pairs.
_TOKEN_PACKAGES = ("jwt", "cryptography")


def authenticate(listeners: Sequence[Listener], services: AuthenticationServices) -> None:
    """Set up TLS and SASL for the listeners that use them. Later changes of their settings take effect too.

    Raises CannotBind if the certificates of a listener cannot be used, the key of the SCRAM salts cannot be read or
    stored, or the keys for its tokens cannot be read.
    """
    for listener in listeners:
        if listener.security_protocol.endswith("SSL"):
            _secure(listener, services)
    sasl_listeners = [listener for listener in listeners if listener.security_protocol.startswith("SASL_")]
    if not sasl_listeners:
        return
    from broker.access.authentication.login_pace import LoginPace
    from broker.access.authentication.sasl_connection import SaslAuthenticator
    from broker.access.authentication.sasl_listener import changing_keys, sasl_listener
    from broker.access.authentication.scram_key import scram_key
    from config.sasl import OAUTHBEARER, enabled_mechanisms

    try:
        secret = scram_key(services.config.metadata_log_dir)
    except OSError as error:
        raise CannotBind(
            f"{sasl_listeners[0].name}: the key of the SCRAM salts cannot be read or stored: {error}"
        ) from None
    pace = LoginPace(services.loop.call_soon)
    current: dict[str, SaslListener] = {}
    validators = {
        listener.name: _token_validator(services, listener.name)
        for listener in sasl_listeners
        if OAUTHBEARER in enabled_mechanisms(services.config, listener.name)
    }

    def refresh(config: BrokerConfig) -> None:
        for listener in sasl_listeners:
            current[listener.name] = sasl_listener(
                config,
                listener.name,
                services.metadata.image,
                secret,
                services.delegation_tokens,
                validators.get(listener.name),
            )

    def attach_authenticator(connection: Connection) -> None:
        listener = current[connection.listener_name]
        SaslAuthenticator(connection, listener, services.dispatcher, services.timers, services.clock, pace)

    refresh(services.config)
    services.config.add_validator(partial(_validate_sasl, services.config))
    services.config.subscribe(changing_keys(listener.name for listener in sasl_listeners), refresh)
    for listener in sasl_listeners:
        listener.on_connect = attach_authenticator


def _validate_sasl(now: BrokerConfig, wanted: BrokerConfig) -> Check | None:
    """Return the check that rejects settings with which the broker could not start; None if they are valid.

    They would take effect at once. Kafka accepts them, and applies them at the next start.
    """
    from config.sasl import sasl_problems

    known = frozenset(sasl_problems(now))
    problem = next((each for each in sasl_problems(wanted) if each not in known), None)
    return None if problem is None else lambda: problem


def _token_validator(services: AuthenticationServices, listener_name: str) -> Validate:
    from config.sasl import unsecured_options

    options = unsecured_options(services.config, listener_name)
    if options is not None:
        from security.sasl.unsecured_token import UnsecuredValidator

        log.warning(
            "Listener %s accepts UNSIGNED bearer tokens: any client can log in as any user. This is for development"
            " only; sasl.oauthbearer.jwks.endpoint.url sets the keys that sign tokens",
            listener_name,
        )
        return UnsecuredValidator(options, services.clock.now_ms)

    from importlib.util import find_spec

    missing = " and ".join(name for name in _TOKEN_PACKAGES if find_spec(name) is None)
    if missing:
        reason = f"signed tokens cannot be verified without {missing}; run pip install 'pybroker[security]'"
        raise CannotBind(f"{listener_name}: {reason}")
    from broker.access.authentication.jwks import JwksError
    from broker.access.authentication.token_validator import token_validator

    try:
        return token_validator(services, listener_name)
    except JwksError as error:
        raise CannotBind(f"{listener_name}: the keys of tokens cannot be read: {error}") from None


def _secure(listener: Listener, services: AuthenticationServices) -> None:
    from broker.access.authentication.tls_listener import TlsListener
    from config.tls_context import TlsError
    from security.principal_rules import RulesError

    try:
        listener.connect = TlsListener(listener, services).connect
    except (TlsError, RulesError) as error:
        raise CannotBind(f"{listener.name}: {error}") from None
