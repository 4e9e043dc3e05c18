"""Addresses in quotas: IP addresses, or names of hosts."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address


def numeric(name: str) -> str | None:
    """Return an IP address in the form that connections have; None for anything else, such as a host name."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def resolved(names: frozenset[str]) -> dict[str, str]:
    """Return the address of each host that has one. Blocks: it asks name servers."""
    found = {}
    for name in names:
        try:
            (*_, address), *_ = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue
        found[name] = str(address[0])
    return found
