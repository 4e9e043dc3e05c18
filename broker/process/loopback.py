"""The name of this machine for local clients: localhost, if that is the address that the client used.

Tests and compose files use localhost, and so do the certificates that are made for them.
"""

from __future__ import annotations

import socket
from functools import cache

from config.listeners import is_wildcard

LOCALHOST = "localhost"


def name_of(address: str, opened: str | None) -> str:
    """Return the name for an address that a client connected to, or the address itself.

    Args:
        address: the address that the client connected to.
        opened: the host of the listener; None for all interfaces.
    """
    if address not in ("127.0.0.1", "::1"):
        return address
    found = localhost_addresses()
    if address not in found:
        return address
    # A client may try any of them first, and not all clients try another one then
    return LOCALHOST if is_wildcard(opened) or found == {opened} else address


@cache
def localhost_addresses() -> frozenset[str]:
    """Return this machine's addresses of localhost. Asks the system once, at the start, before a client waits."""
    try:
        infos = socket.getaddrinfo(LOCALHOST, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for family, _, _, _, address in infos if _is_ours(family, str(address[0])))


def _is_ours(family: int, address: str) -> bool:
    """Return whether the address can be bound: hosts files name ::1 even where IPv6 is off."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
