"""Values in DER (X.690), and the fields of a certificate in it (RFC 5280).

What OpenSSL tells of the names in a certificate does not say how each of them is encoded, and it has no words at all
for some.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET = 0x30, 0x31
_OBJECT_ID, _VERSION, _EXTENSIONS = 0x06, 0xA0, 0xA3


class Value(NamedTuple):
    """A value: its tag, its contents, and all of it."""

    tag: int
    contents: bytes
    whole: bytes


class CertificateFields(NamedTuple):
    """Of a certificate: whom it is for; its extensions, or nothing."""

    subject: Value
    extensions: bytes


def certificate_fields(certificate: bytes) -> CertificateFields:
    """What stands in one. ValueError, IndexError: these bytes are none."""
    signed, *_ = parts(certificate)  # OpenSSL may have put behind it for what it is trusted
    to_be_signed, *_ = inside(signed, SEQUENCE)
    fields = list(inside(to_be_signed, SEQUENCE))
    if fields[0].tag == _VERSION:
        del fields[0]
    _serial, _algorithm, _issuer, _validity, subject, *others = fields
    extensions = [each.contents for each in others if each.tag == _EXTENSIONS]
    return CertificateFields(subject, b"".join(extensions))


def inside(value: Value, tag: int) -> Iterator[Value]:
    """The values in one that has to be of a kind. ValueError."""
    if value.tag != tag:
        raise ValueError(f"a value has tag {value.tag:#x}, and not {tag:#x}")
    return parts(value.contents)


def parts(data: bytes) -> Iterator[Value]:
    """The values that stand one after the other. ValueError, IndexError."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size & 0x80:  # so many bytes have the length
            count = size & 0x7F
            if not count:
                raise ValueError("a length is left open")
            size, at = int.from_bytes(data[at : at + count]), at + count
        if at + size > len(data):
            raise ValueError(f"{size} bytes are promised where there are {len(data) - at}")
        yield Value(tag, data[at : at + size], data[begin : at + size])
        at += size


def object_id(value: Value) -> str:
    """A number with dots. ValueError, IndexError."""
    if value.tag != _OBJECT_ID:
        raise ValueError(f"what has to be a number with dots has tag {value.tag:#x}")
    return dotted(value.contents)


def dotted(data: bytes) -> str:
    """Numbers of seven bits a byte, of which all but the last have the eighth; the first two are one. IndexError."""
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
