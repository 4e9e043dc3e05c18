"""The alternative names in a certificate (RFC 5280, subjectAltName), as Java's X509Certificate returns them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from security.der import SEQUENCE, Value, certificate_fields, dotted, inside, object_id, parts
from security.distinguished_name import written

_EXTENSION = "2.5.29.17"
_KIND = 0x1F  # of a tag


def alternative_names(certificate: bytes) -> frozenset[tuple[int, str]]:
    """Return the kind and the text of each alternative name.

    A name without a text in Java, or with an invalid value, is "#" and its bytes in hexadecimal.

    Raises:
        ValueError: the bytes are not a certificate in DER, or its alternative names are invalid.
    """
    try:
        listed = (
            each for value in parts(certificate_fields(certificate).extensions) for each in inside(value, SEQUENCE)
        )
        extensions = {
            object_id(number): value for number, *_critical, value in (inside(each, SEQUENCE) for each in listed)
        }
        extension = extensions.get(_EXTENSION)
        if extension is None:
            return frozenset()
        [names] = parts(extension.contents)
        return frozenset((each.tag & _KIND, _written(each)) for each in inside(names, SEQUENCE))
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a certificate in DER: {error}") from error


def _written(name: Value) -> str:
    with suppress(LookupError, ValueError):
        return _WRITERS[name.tag & _KIND](name.contents)
    return f"#{name.whole.hex()}"


def _text(contents: bytes) -> str:
    return contents.decode("latin-1")


def _directory_name(contents: bytes) -> str:
    [name] = parts(contents)
    return written(name)


def _address(contents: bytes) -> str:
    address = ip_address(contents)
    if isinstance(address, IPv6Address):
        if not address.ipv4_mapped:
            # Java does not shorten runs of zeros
            return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
        address = address.ipv4_mapped
    return str(address)


_WRITERS: dict[int, Callable[[bytes], str]] = {
    1: _text,  # mail
    2: _text,  # host
    4: _directory_name,
    6: _text,  # URI
    7: _address,
    8: dotted,
}
