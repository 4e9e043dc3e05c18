"""Text written by people or sent by clients: configurations, login modules, mapping rules, SCRAM."""

from __future__ import annotations

import re
from contextlib import suppress

from config.errors import ConfigError
from config.load import load
from config.properties import parse_properties
from security.jaas import JaasError, parse_jaas
from security.principal_rules import PrincipalRules, RulesError
from security.sasl.exchange_protocol import InvalidCredentials, Refused
from security.sasl.plain import PlainExchange, users_of
from security.sasl.scram import ScramExchange
from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism, credential_of

#: The hash of a password that no token proves.
_CREDENTIALS = {
    mechanism: credential_of(mechanism, mechanism.hash(b"nobody's"), b"0123456789abcdef", MIN_ITERATIONS)
    for mechanism in ScramMechanism
}
_REPEATED_GROUP = re.compile(rb"\)[*+{]")
_NAME = "CN=kafka.example.org,OU=ServiceUsers,O=Example,C=DE"


def properties(data: bytes) -> None:
    """A server.properties file: its syntax and its meaning for a broker."""
    with suppress(ConfigError):
        entries = parse_properties(data)
        load(overrides={entry.key: entry.value for entry in entries}, to_serve=True)


def jaas(data: bytes) -> None:
    """The value of sasl.jaas.config."""
    with suppress(JaasError):
        for module in parse_jaas(data.decode(errors="replace")):
            users_of(module.options)


def principal_rules(data: bytes) -> None:
    """ssl.principal.mapping.rules, and a name that they are applied to.

    A pattern of an administrator may take for ever, here as in Java, so repetitions of groups are excluded.
    """
    if _REPEATED_GROUP.search(data):
        return
    with suppress(RulesError):
        PrincipalRules(data.decode(errors="replace")).user_of(_NAME)


def scram(data: bytes) -> None:
    """The tokens of a client that authenticates, separated by newlines. No client without a password succeeds."""
    tokens = data.split(b"\n")
    for mechanism, credential in _CREDENTIALS.items():
        exchange = ScramExchange(mechanism, {"alice": credential}.get, b"secret", "nonce")
        with suppress(InvalidCredentials, Refused):
            for token in tokens:
                exchange.step(token)
        assert exchange.user is None
    plain = PlainExchange({"alice": "a password that nobody guesses"})
    with suppress(InvalidCredentials, Refused):
        plain.step(data)
    assert plain.user is None
