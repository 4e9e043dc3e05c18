"""What a client on this machine calls it: localhost, where that is the address that the client used.

Tests and compose files say localhost, and so do the certificates that are made for them.
"""

from __future__ import annotations

import socket
from functools import cache

LOCALHOST = "localhost"


def name_of(address: str, opened: str | None) -> str:
    """The name for an address that a client came in on, else the address itself.

    Args:
        address: the client has reached us at.
        opened: the host of the listener: None for all interfaces, 0.0.0.0 or :: for those of IPv4 or IPv6 alone.
    """
    if address not in ("127.0.0.1", "::1"):
        return address
    found = localhost_addresses()
    if address not in found:
        return address
    # A client may try any of them first, and not all clients try another one then
    served = {None: "127.0.0.1 ::1", "0.0.0.0": "127.0.0.1"}.get(opened, "::1").split()
    return LOCALHOST if found.issubset(served) else address


@cache
def localhost_addresses() -> frozenset[str]:
    """The addresses of localhost that this machine has. Asks the system once: at the start, before anybody waits."""
    try:
        infos = socket.getaddrinfo(LOCALHOST, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for family, _, _, _, address in infos if _is_ours(family, str(address[0])))


def _is_ours(family: int, address: str) -> bool:
    """Whether it can be bound: hosts files name ::1 where IPv6 is off, too."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
