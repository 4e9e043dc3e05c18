"""TLS in the configuration: the stores, passwords and rules of each listener, checked before the start."""

from __future__ import annotations

from collections.abc import Iterator

from security.principal_rules import PrincipalRules, RulesError

from .broker_config import BrokerConfig
from .errors import Problem

_RULES = "ssl.principal.mapping.rules"


def tls_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield why listeners with TLS cannot be served as configured. A problem of several listeners is reported once."""
    from config.tls_context import TlsSettings  # imported on first use: most listeners have no TLS

    reported: set[Problem] = set()
    for listener in config.listeners:
        if not listener.security_protocol.endswith("SSL"):
            continue
        found = (
            TlsSettings(config, listener.name, listener.security_protocol).problem(),
            _rules_problem(config, listener.name),
        )
        for problem in found:
            if problem is not None and problem not in reported:
                reported.add(problem)
                yield problem


def _rules_problem(config: BrokerConfig, listener_name: str) -> Problem | None:
    rules = str(config.get_for_listener(listener_name, _RULES) or "")
    try:
        PrincipalRules(rules)
    except RulesError as error:
        own = f"listener.name.{listener_name.lower()}.{_RULES}"
        key = own if own in config.originals() else _RULES
        return Problem(key, rules, str(error), "DEFAULT, or RULE:pattern/replacement/[LU], separated by commas")
    return None
