"""Values in DER (X.690), and the fields of a certificate in DER (RFC 5280).

OpenSSL's names of a certificate do not show how each value is encoded, and leave out some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET = 0x30, 0x31
_OBJECT_ID, _VERSION, _EXTENSIONS = 0x06, 0xA0, 0xA3


class Value(NamedTuple):
    """A value: its tag, its content, and all of its bytes."""

    tag: int
    contents: bytes
    whole: bytes


class CertificateFields(NamedTuple):
    """The fields of a certificate: its subject, and its extensions, if any."""

    subject: Value
    extensions: bytes


def certificate_fields(certificate: bytes) -> CertificateFields:
    """Return the fields of a certificate. Raises ValueError or IndexError for other bytes."""
    signed, *_ = parts(certificate)  # OpenSSL may append trust settings to a certificate
    to_be_signed, *_ = inside(signed, SEQUENCE)
    fields = list(inside(to_be_signed, SEQUENCE))
    if fields[0].tag == _VERSION:
        del fields[0]
    _serial, _algorithm, _issuer, _validity, subject, *others = fields
    extensions = [each.contents for each in others if each.tag == _EXTENSIONS]
    return CertificateFields(subject, b"".join(extensions))


def inside(value: Value, tag: int) -> Iterator[Value]:
    """Yield the values inside a value with this tag. Raises ValueError."""
    if value.tag != tag:
        raise ValueError(f"a value has tag {value.tag:#x} instead of {tag:#x}")
    return parts(value.contents)


def parts(data: bytes) -> Iterator[Value]:
    """Yield consecutive values. Raises ValueError, IndexError."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size & 0x80:  # the number of bytes of the length
            count = size & 0x7F
            if not count:
                raise ValueError("a length is indefinite")
            size, at = int.from_bytes(data[at : at + count]), at + count
        if at + size > len(data):
            raise ValueError(f"{size} bytes are expected, but {len(data) - at} are left")
        yield Value(tag, data[at : at + size], data[begin : at + size])
        at += size


def object_id(value: Value) -> str:
    """Return an object identifier as text. Raises ValueError, IndexError."""
    if value.tag != _OBJECT_ID:
        raise ValueError(f"an object identifier has tag {value.tag:#x}")
    return dotted(value.contents)


def dotted(data: bytes) -> str:
    """Return the numbers of an object identifier's content as text. Raises IndexError.

    Each number has seven bits per byte; all but its last byte have the eighth bit. The first number stands for two.
    """
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
