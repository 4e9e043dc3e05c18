"""SASL in the configuration: the mechanisms of a listener and their JAAS entries, found and checked as Kafka does.

    listener.name.internal.sasl.enabled.mechanisms=PLAIN
    listener.name.internal.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
        user_alice="secret";
"""

from __future__ import annotations

from collections.abc import Iterator

from security.jaas import JaasError, LoginModule, login_module
from security.plain import users_of
from security.scram_credential import BY_SASL_NAME

from .broker_config import BrokerConfig
from .errors import Problem
from .values import Password

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *BY_SASL_NAME)
"""All that are served."""

_JAAS = "sasl.jaas.config"
_CALLBACK_HANDLER = "sasl.server.callback.handler.class"


def enabled_mechanisms(config: BrokerConfig, listener_name: str) -> tuple[str, ...]:
    """The mechanisms of a listener that are served, in the order in which clients are told of them."""
    names = config.get_for_listener(listener_name, "sasl.enabled.mechanisms")
    assert isinstance(names, tuple)
    return tuple(name for name in dict.fromkeys(names) if name in MECHANISMS)


def jaas_entry(config: BrokerConfig, listener_name: str, mechanism: str) -> LoginModule | None:
    """The login module of a listener's mechanism, None where there is none. Raises JaasError."""
    value = config.get_for_mechanism(listener_name, mechanism, _JAAS, unprefixed=False)
    return login_module(value.value) if isinstance(value, Password) else None


def plain_users(config: BrokerConfig, listener_name: str) -> dict[str, str]:
    """Passwords by user for PLAIN; none where the entry cannot be read."""
    try:
        entry = jaas_entry(config, listener_name, PLAIN)
    except JaasError:
        return {}
    return users_of(entry.options) if entry is not None else {}


def sasl_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Why listeners with SASL cannot be served as they are configured."""
    for listener in config.listeners:
        if listener.security_protocol.startswith("SASL_"):
            yield from _problems_of(config, listener.name)


def _problems_of(config: BrokerConfig, listener_name: str) -> Iterator[Problem]:
    prefix = f"listener.name.{listener_name.lower()}."
    names = config.get_for_listener(listener_name, "sasl.enabled.mechanisms")
    assert isinstance(names, tuple)
    for name in names:
        if name not in MECHANISMS:
            reason = f"mechanism {name} of listener {listener_name} is not served"
            yield Problem("sasl.enabled.mechanisms", ",".join(names), reason, ", ".join(MECHANISMS))
            continue
        key = f"{prefix}{name.lower()}.{_JAAS}"
        try:
            entry = jaas_entry(config, listener_name, name)
        except JaasError as error:
            yield Problem(key, None, str(error), "one login module, its options and a semicolon")
            continue
        if entry is None and name == PLAIN:
            section = f"{listener_name.lower()}.KafkaServer"
            reason = f"Could not find a 'KafkaServer' or '{section}' entry in the JAAS configuration."
            yield Problem(key, None, reason, "a login module with the users")
        if config.get_for_mechanism(listener_name, name, _CALLBACK_HANDLER) is not None:
            yield Problem(f"{prefix}{name.lower()}.{_CALLBACK_HANDLER}", None, "Java classes are not loaded", "nothing")
