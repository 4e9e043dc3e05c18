"""The name in a certificate as Java writes it (RFC 2253): what principals, ACLs and mapping rules are written for.

It is read from the certificate's own bytes (DER, X.690): what OpenSSL tells of a name does not say how each of its
values is encoded, which Java writes out, and it has no words at all for some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: Attributes that have a short name there; others are written as their number and their bytes.
_SHORT = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: Kinds of values that are written as text, with how that is encoded; others are written as their bytes. So has it
#: Java today; up to Java 21 it took all of these for UTF-8.
_ENCODINGS = {
    0x0C: "utf-8",  # UTF8String
    0x13: "latin-1",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "latin-1",  # IA5String
    0x1B: "latin-1",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_SPECIAL = re.compile(r'([,=+<>#;"\\])')
_OUTER_BLANKS = re.compile(r"^[ \r]+|[ \r]+\Z")
_SEQUENCE, _SET, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x06, 0xA0


class Value(NamedTuple):
    """A value in DER: its tag, its contents, and all of it."""

    tag: int
    contents: bytes
    whole: bytes


def distinguished_name(certificate: bytes) -> str:
    """Its subject's name as one line, the last part first. ValueError: these bytes are no certificate in DER."""
    try:
        signed, *_ = _parts(certificate)  # OpenSSL may have put behind it for what it is trusted
        to_be_signed, *_ = _inside(signed, _SEQUENCE)
        fields = list(_inside(to_be_signed, _SEQUENCE))
        if fields[0].tag == _VERSION:
            del fields[0]
        _serial, _algorithm, _issuer, _validity, subject, *_ = fields
        names = [
            [_attribute(*_inside(each, _SEQUENCE)) for each in _inside(part, _SET)]
            for part in _inside(subject, _SEQUENCE)
        ]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"no certificate in DER: {error}") from error
    return ",".join("+".join(part) for part in reversed(names))


def _inside(value: Value, tag: int) -> Iterator[Value]:
    """The values in one that has to be of a kind. ValueError."""
    if value.tag != tag:
        raise ValueError(f"a value has tag {value.tag:#x}, and not {tag:#x}")
    return _parts(value.contents)


def _parts(data: bytes) -> Iterator[Value]:
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


def _attribute(kind: Value, value: Value) -> str:
    if kind.tag != _OBJECT_ID:
        raise ValueError(f"an attribute is named by tag {kind.tag:#x}")
    number = _object_id(kind.contents)
    name = _SHORT.get(number, number)
    encoding = _ENCODINGS.get(value.tag)
    if name is number or encoding is None:
        return f"{name}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.contents.decode(encoding, 'replace'))}"


def _object_id(data: bytes) -> str:
    """Numbers of seven bits a byte, of which all but the last have the eighth; the first two are one."""
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\1", text).replace("\0", "\\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join(f"\\{each}" for each in blanks[0]), text)
