"""The name in a certificate as Java writes it (RFC 2253): what principals, ACLs and mapping rules are written for."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Attributes with a short name there, by the names of Python's ssl module.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
    "UID": "UID",
}
#: Others are written as their number and their bytes in DER.
_NUMBERS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13)}
_UTF_8 = 0x0C
_SPECIAL = re.compile(r'([,+"\\<>;])')

RelativeNames = Iterable[tuple[tuple[str, str], ...]]
"""The parts of a name, from the country on, each with one attribute or more, as `ssl.SSLSocket.getpeercert` has it."""


def distinguished_name(subject: RelativeNames) -> str:
    """As one line, the last part first."""
    return ",".join("+".join(_attribute(*each) for each in part) for part in reversed(tuple(subject)))


def _attribute(name: str, value: str) -> str:
    short = _SHORT.get(name)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, tag = _NUMBERS.get(name, (name, _UTF_8))
    data = value.encode()
    return f"{number}=#{tag:02x}{_der_length(len(data)).hex()}{data.hex()}"


def _der_length(size: int) -> bytes:
    """One byte below 128; else how many bytes follow, and these."""
    if size < 128:
        return bytes((size,))
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((0x80 | len(digits),)) + digits


def _escaped(value: str) -> str:
    value = _SPECIAL.sub(r"\\\1", value)
    if value[:1] in ("#", " "):
        value = "\\" + value
    return value[:-1] + "\\ " if value.endswith(" ") and len(value) > 1 else value
