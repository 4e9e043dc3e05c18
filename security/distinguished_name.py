"""The subject name of a certificate as Java writes it (RFC 2253), as used by principals, ACLs and mapping rules.

It is read from the certificate's own bytes, because Java's text depends on the encoding of each value.
"""

from __future__ import annotations

import re

from security.der import SEQUENCE, SET, Value, certificate_fields, inside, object_id

#: Attributes with a short name in Java. Others are written as their number and their bytes.
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
#: The kinds of values that are written as text, with their encodings; others are written as bytes. Java up to 21
#: decoded all of these as UTF-8.
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


def distinguished_name(certificate: bytes) -> str:
    """Return the subject's name as one line, the last part first.

    Raises ValueError for bytes that are not a certificate in DER.
    """
    try:
        return written(certificate_fields(certificate).subject)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a certificate in DER: {error}") from error


def written(name: Value) -> str:
    """Return a name as text. Raises ValueError, IndexError."""
    names = [[_attribute(each) for each in inside(part, SET)] for part in inside(name, SEQUENCE)]
    return ",".join("+".join(part) for part in reversed(names))


def _attribute(attribute: Value) -> str:
    kind, value = inside(attribute, SEQUENCE)
    number = object_id(kind)
    name = _SHORT.get(number, number)
    encoding = _ENCODINGS.get(value.tag)
    if name is number or encoding is None:
        return f"{name}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.contents.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\1", text).replace("\0", "\\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join(f"\\{each}" for each in blanks[0]), text)
