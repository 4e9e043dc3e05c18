"""What is written by people, or sent as text: configurations, login modules, rules for names, SCRAM."""

from __future__ import annotations

import re
from contextlib import suppress

from config.errors import ConfigError
from config.load import load
from config.properties import parse_properties
from security.exchange import InvalidCredentials, Refused
from security.jaas import JaasError, parse_jaas
from security.plain import PlainExchange, users_of
from security.principal_rules import PrincipalRules, RulesError
from security.scram import ScramExchange
from security.scram_credential import MIN_ITERATIONS, ScramMechanism, credential_of

#: Of a password that no token proves.
_CREDENTIALS = {
    mechanism: credential_of(mechanism, mechanism.hash(b"nobody's"), b"0123456789abcdef", MIN_ITERATIONS)
    for mechanism in ScramMechanism
}
_REPEATED_GROUP = re.compile(rb"\)[*+{]")
_NAME = "CN=kafka.example.org,OU=ServiceUsers,O=Example,C=DE"


def properties(data: bytes) -> None:
    """A server.properties: its syntax, and what it means to a broker that is to start with it."""
    with suppress(ConfigError):
        entries = parse_properties(data)
        load(overrides={entry.key: entry.value for entry in entries}, to_serve=True)


def jaas(data: bytes) -> None:
    """sasl.jaas.config."""
    with suppress(JaasError):
        for module in parse_jaas(data.decode(errors="replace")):
            users_of(module.options)


def principal_rules(data: bytes) -> None:
    """ssl.principal.mapping.rules, and a name that they are applied to.

    An administrator may write patterns that take for ever, here as in Java: repetitions of groups are left out.
    """
    if _REPEATED_GROUP.search(data):
        return
    with suppress(RulesError):
        PrincipalRules(data.decode(errors="replace")).user_of(_NAME)


def scram(data: bytes) -> None:
    """The tokens of a client that wants to come in, parted by line ends. Nobody does who has no password."""
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
