"""The SASL mechanisms by which a broker logs in at other nodes.

It uses `username` and `password` of the listener's login module, as Apache Kafka does:

    listener.name.internal.plain.sasl.jaas.config=...PlainLoginModule required username="broker" password="secret" ...;

With OAUTHBEARER it sends a token (`outbound_tokens.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from config.errors import ConfigError, Problem
from config.sasl import OAUTHBEARER, PLAIN, jaas_entries
from security.sasl.client import ClientExchange, PlainClient, ScramClient
from security.sasl.scram import new_nonce
from security.sasl.scram_credential import BY_SASL_NAME

if TYPE_CHECKING:
    from config import BrokerConfig
    from security.jaas import LoginModule


def exchanges(
    config: BrokerConfig, listener_name: str, mechanism: str, mechanism_key: str
) -> Callable[[], ClientExchange]:
    """Return a function that begins an exchange by `mechanism`, the value of `mechanism_key`. Raises ConfigError."""
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
