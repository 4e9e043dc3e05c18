"""`console.listeners`: the addresses of the console, and the broker's listener that it uses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from .authorizer import has_authorizer
from .broker_config import BrokerConfig
from .errors import Problem
from .http_listeners import parse_http_listener
from .listeners import Listener
from .sasl import enabled_mechanisms

_KEY = "console.listeners"
_CA_KEY = "console.ssl.ca.location"
#: The mechanisms with passwords, which people can enter. The console uses the first one that accepts the password.
_WITH_PASSWORD = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def console_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield why the configured console cannot be started.

    Browsers send passwords to it unencrypted, so it listens on loopback addresses only. If the broker authenticates
    clients, it needs a listener with passwords: the console accepts the users of that listener.
    """
    entries = config.get_list(_KEY)
    if not entries:
        return
    if config.is_controller:
        reason = "a controller has no console: the consoles of brokers show the cluster"
        yield Problem(_KEY, ",".join(entries), reason, "no value with process.roles=controller")
        return
    for entry in entries:
        host, _ = parse_http_listener(entry)
        if not is_loopback(host):
            reason = "the console speaks HTTP without TLS, so it listens on this machine's own address only"
            yield Problem(_KEY, entry, reason, "http://127.0.0.1:8080, http://localhost:8080, http://[::1]:8080")
    if console_listener(config) is not None:
        return
    secured = [str(each) for each in config.listeners if each.security_protocol != "PLAINTEXT"]
    what = " and ".join(secured) or "authorizer.class.name"
    reason = f"{what} requires authentication, and no listener accepts the passwords of the console's users"
    allowed = f"SASL_PLAINTEXT, or SASL_SSL with {_CA_KEY}, with one of {', '.join(_WITH_PASSWORD)}"
    yield Problem(_KEY, ",".join(entries), reason, allowed)


def console_listener(config: BrokerConfig) -> Listener | None:
    """Return the listener that the console uses, preferably one with authentication; None if there is none."""
    has_ca = bool(config.get_str(_CA_KEY))
    protocols = ("SASL_PLAINTEXT", "SASL_SSL") if has_ca else ("SASL_PLAINTEXT",)
    for protocol in protocols:
        for each in config.listeners:
            if each.security_protocol == protocol and login_mechanisms(config, each):
                return each
    if has_authorizer(config) or any(each.security_protocol != "PLAINTEXT" for each in config.listeners):
        return None
    return config.listeners[0]


def login_mechanisms(config: BrokerConfig, listener: Listener) -> tuple[str, ...]:
    """Return the mechanisms by which the console's users log in; () without authentication."""
    if not listener.security_protocol.startswith("SASL_"):
        return ()
    enabled = enabled_mechanisms(config, listener.name)
    return tuple(each for each in _WITH_PASSWORD if each in enabled)


def is_loopback(host: str | None) -> bool:
    """Return whether the address is reachable from this machine only; None is all interfaces."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
