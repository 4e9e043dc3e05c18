"""TLS and SASL of connections to other nodes, by the configuration of the inter-broker or the controllers' listener.

What TLS and SASL need is loaded with the first listener that uses them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import ConfigError

if TYPE_CHECKING:
    from config import BrokerConfig
    from security.sasl.client import ClientExchange

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
    """Return the security of the inter-broker listener. Blocks: it reads key stores. Raises ConfigError."""
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
        tls = _client_context(config, name, protocol)
    if not protocol.startswith("SASL_"):
        return OutboundSecurity(tls)
    from broker.network.outbound_sasl import exchanges

    mechanism = str(config.get_for_listener(name, mechanism_key))
    return OutboundSecurity(tls, mechanism, exchanges(config, name, mechanism, mechanism_key))


def _client_context(config: BrokerConfig, name: str, protocol: str) -> ssl.SSLContext:
    from config.tls_context import TlsError, TlsSettings

    checks_name = bool(config.get_for_listener(name, _IDENTIFICATION))
    try:
        return TlsSettings(config, name, protocol).client_context(check_hostname=checks_name)
    except TlsError as error:
        raise ConfigError(error.problem) from None
