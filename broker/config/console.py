"""`console.listeners`: where the console may listen, and beside what."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from .authorizer import has_authorizer
from .broker_config import BrokerConfig
from .errors import Problem
from .http_listeners import parse_http_listener

_KEY = "console.listeners"


def console_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Why there can be no console as it is configured.

    It asks nobody who they are, and reads the data directory past any authorizer: so it is for a machine's own users,
    and only where the broker keeps nothing from them either.
    """
    entries = config.get_list(_KEY)
    if not entries:
        return
    for entry in entries:
        host, _ = parse_http_listener(entry)
        if not is_loopback(host):
            reason = "the console asks nobody who they are, so it listens on this machine's own address only"
            yield Problem(_KEY, entry, reason, "http://127.0.0.1:8080, http://localhost:8080, http://[::1]:8080")
    secured = [str(each) for each in config.listeners if each.security_protocol != "PLAINTEXT"]
    if has_authorizer(config) or secured:
        what = "authorizer.class.name" if has_authorizer(config) else " and ".join(secured)
        reason = f"the console asks nobody who they are, and {what} asks for that"
        yield Problem(_KEY, ",".join(entries), reason, "none: users cannot log in to the console yet")


def is_loopback(host: str | None) -> bool:
    """Whether what listens there is reached from this machine alone; None is all interfaces."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
