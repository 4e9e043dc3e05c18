"""TLS and SASL of connections to other nodes, by the configuration of the inter-broker or the controllers' listener.

A broker logs in with `username` and `password` of the listener's login module, as in Apache Kafka:

    listener.name.internal.plain.sasl.jaas.config=...PlainLoginModule required username="broker" password="secret" ...;

With OAUTHBEARER it sends a token (`outbound_tokens.py`).
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import ConfigError, Problem
from config.sasl import OAUTHBEARER, PLAIN, jaas_entries
from config.tls_context import TlsSettings
from security.sasl.client import ClientExchange, PlainClient, ScramClient
from security.sasl.scram import new_nonce
from security.sasl.scram_credential import BY_SASL_NAME

if TYPE_CHECKING:
    from config import BrokerConfig
    from security.jaas import LoginModule

_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class OutboundSecurity:
    """The context for TLS, and the SASL mechanism with a function that begins an exchange; None without them."""

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    new_exchange: Callable[[], ClientExchange] | None = None


def inter_broker_security(config: BrokerConfig) -> OutboundSecurity:
    """Return the security of the inter-broker listener. Blocks: it reads key stores. Raises TlsError, ConfigError."""
    name = config.inter_broker_listener_name
    protocol = next(each.security_protocol for each in config.listeners if each.name == name)
    return _security(config, name, protocol, _MECHANISM)


def controller_security(config: BrokerConfig) -> OutboundSecurity:
    """Return the security of the controllers' listener. Blocks and raises as `inter_broker_security`."""
    assert config.listening.to_controllers is not None
    name, protocol = config.listening.to_controllers
    return _security(config, name, protocol, _CONTROLLER_MECHANISM)


def _security(config: BrokerConfig, name: str, protocol: str, mechanism_key: str) -> OutboundSecurity:
    tls = None
    if protocol.endswith("SSL"):
        checks_name = bool(config.get_for_listener(name, _IDENTIFICATION))
        tls = TlsSettings(config, name, protocol).client_context(check_hostname=checks_name)
    if not protocol.startswith("SASL_"):
        return OutboundSecurity(tls)
    mechanism = str(config.get_for_listener(name, mechanism_key))
    return OutboundSecurity(tls, mechanism, _exchanges(config, name, mechanism, mechanism_key))


def _exchanges(
    config: BrokerConfig, listener_name: str, mechanism: str, mechanism_key: str
) -> Callable[[], ClientExchange]:
    if mechanism == OAUTHBEARER:
        from broker.network.outbound_tokens import bearer_exchanges  # loaded only with it

        return bearer_exchanges(config, listener_name)
    if mechanism != PLAIN and mechanism not in BY_SASL_NAME:
        allowed = ", ".join((PLAIN, *BY_SASL_NAME, OAUTHBEARER))
        raise ConfigError(Problem(mechanism_key, mechanism, "not supported between brokers", allowed))
    user, password = _credentials(jaas_entries(config, listener_name, mechanism) or [], listener_name, mechanism)
    if mechanism == PLAIN:
        return lambda: PlainClient(user, password)
    return lambda: ScramClient(BY_SASL_NAME[mechanism], user, password, new_nonce(secrets.randbits))


def _credentials(entries: list[LoginModule], listener_name: str, mechanism: str) -> tuple[str, str]:
    for entry in entries:
        if {"username", "password"} <= entry.options.keys():
            return entry.options["username"], entry.options["password"]
    key = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    reason = "the login module has no username and password, with which the broker connects to others"
    raise ConfigError(Problem(key, None, reason, 'username="..." password="..."'))
