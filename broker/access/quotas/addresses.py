"""Names of addresses in quotas: numbers as connections have them, or hosts that have some."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address


def numeric(name: str) -> str | None:
    """An address as connections have it; None for what is none, such as the name of a host."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def resolved(names: frozenset[str]) -> dict[str, str]:
    """The address of each host that has one; asks the network, so not for the loop."""
    found = {}
    for name in names:
        try:
            (*_, address), *_ = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue
        found[name] = str(address[0])
    return found
