"""Ranges of addresses as hosts of access control entries: `10.0.0.0/8`, `2001:db8::/32` (KIP-1276).

Kafka keeps a range as it was typed, with host bits and leading zeros, and reads it with Apache Commons Net. What is
allowed here, and the texts of the errors, are those of that library: an IPv6 range may not be an IPv4-mapped one, and
the range 0.0.0.0/0 does not have the address 0.0.0.0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_IPV4_RANGE = re.compile(_IPV4.pattern + r"/(\d{1,2})", re.ASCII)
_PREFIX_LENGTH = re.compile(r"[+-]?\d{1,999}")
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")
_INT_MAX = (1 << 31) - 1
_IPV4_BITS, _IPV6_BITS = 32, 128


class AddressRange(NamedTuple):
    """The addresses from `first` to `last`, as numbers of `bits` bits."""

    bits: int
    first: int
    last: int

    def has(self, address: tuple[int, int] | None) -> bool:
        """Return whether an address of `address_of` is in the range."""
        return address is not None and address[0] == self.bits and self.first <= address[1] <= self.last


def parse_range(text: str) -> AddressRange:
    """Return the range of a text with a slash. Raises ValueError with Kafka's reason."""
    return _parse_ipv6_range(text) if ":" in text else _parse_ipv4_range(text)


def address_of(host: str) -> tuple[int, int] | None:
    """Return (bits, number) of a client's address in Java's notation; None if it is neither IPv4 nor IPv6.

    Also None for 0.0.0.0, which is in no range.
    """
    try:
        if ":" in host:
            return _IPV6_BITS, _ipv6_number(host)
        parts = _IPV4.fullmatch(host)
        number = _ipv4_number(parts.groups()) if parts else 0
    except ValueError:
        return None
    return (_IPV4_BITS, number) if number else None


def _parse_ipv4_range(text: str) -> AddressRange:
    parts = _IPV4_RANGE.fullmatch(text)
    if parts is None:
        raise ValueError(f"Could not parse [{text}]")
    *address, length = parts.groups()
    number = _ipv4_number(address)
    return _range(_IPV4_BITS, number, _checked(length, _IPV4_BITS))


def _ipv4_number(parts: list[str] | tuple[str, ...]) -> int:
    return int.from_bytes([_checked(part, 255) for part in parts])


def _checked(digits: str, largest: int) -> int:
    value = int(digits)
    if value > largest:
        raise ValueError(f"Value [{value}] not in range [0,{largest}]")
    return value


def _parse_ipv6_range(text: str) -> AddressRange:
    address, _, length = text.partition("/")
    if not _PREFIX_LENGTH.fullmatch(length) or not -_INT_MAX - 1 <= int(length) <= _INT_MAX:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    if not 0 <= int(length) <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and {_IPV6_BITS}")
    return _range(_IPV6_BITS, _ipv6_number(address), int(length))


def _ipv6_number(text: str) -> int:
    """Return the number of an IPv6 address, without its scope. As in Java, it may be in brackets."""
    from ipaddress import IPv6Address  # imported late: it takes a millisecond, and is rarely needed

    plain = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    plain, percent, scope = plain.partition("%")
    try:
        if percent and not scope:
            raise ValueError("the scope is empty")
        address = IPv6Address(_LEADING_ZEROS.sub("", plain))
    except ValueError:
        raise ValueError(f"Could not parse [{text}]") from None
    if address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{text}] - not an IPv6 address")
    return int(address)


def _range(bits: int, number: int, length: int) -> AddressRange:
    rest = (1 << bits - length) - 1
    return AddressRange(bits, number & ~rest, number | rest)
