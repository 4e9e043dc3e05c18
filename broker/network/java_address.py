"""A client's address as Kafka shows it in groups: Java's text for it, with a slash in front."""

from __future__ import annotations


def java_address(host: str) -> str:
    """ "/127.0.0.1"; IPv6 with all eight groups and without leading zeros, IPv4 inside IPv6 as IPv4."""
    if ":" not in host:
        return f"/{host}"
    from ipaddress import IPv6Address  # imported late: it takes a millisecond, and is rarely needed

    plain, percent, scope = host.partition("%")
    address = IPv6Address(plain)
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    groups = (format(int(group, 16), "x") for group in address.exploded.split(":"))
    return f"/{':'.join(groups)}{percent}{scope}"
