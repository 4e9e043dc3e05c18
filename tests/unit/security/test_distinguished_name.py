"""Names in certificates, as one line; tests/conformance/test_user_names.py compares more of them with Java's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from ssl import PEM_cert_to_DER_cert

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from security.distinguished_name import distinguished_name
from tests.support.certificates import Authority


def written(tmp_path: Path, *parts: Sequence[tuple[x509.ObjectIdentifier, str]]) -> str:
    """Return the name of a certificate with these parts."""
    named = x509.Name(
        x509.RelativeDistinguishedName([x509.NameAttribute(kind, text) for kind, text in part]) for part in parts
    )
    issued = Authority(tmp_path).issue("any", subject=named).read_text()
    begin = issued.index("-----BEGIN CERTIFICATE-----")
    end = "-----END CERTIFICATE-----"
    return distinguished_name(PEM_cert_to_DER_cert(issued[begin : issued.index(end) + len(end)]))


@pytest.mark.parametrize(("size", "head"), [(127, "167f"), (128, "168180"), (255, "1681ff"), (300, "1682012c")])
def test_attributes_without_a_short_name_are_whole_in_der(tmp_path: Path, size: int, head: str) -> None:
    """Some lengths need more than a byte."""
    name = written(tmp_path, [(NameOID.EMAIL_ADDRESS, "a" * size)])
    assert name == f"1.2.840.113549.1.9.1=#{head}{'61' * size}"


def test_names_as_java_writes_them(tmp_path: Path) -> None:
    name = written(
        tmp_path,
        [(NameOID.COUNTRY_NAME, "DE")],
        [(NameOID.ORGANIZATION_NAME, "Smith, Jones + Co")],
        [(NameOID.COMMON_NAME, "alice"), (NameOID.USER_ID, "a1")],
        [(NameOID.GIVEN_NAME, "A")],
    )
    assert name == "2.5.4.42=#0c0141,CN=alice+UID=a1,O=Smith\\, Jones \\+ Co,C=DE"
    assert written(tmp_path, [(NameOID.COMMON_NAME, "  #a=b ")]) == "CN=\\ \\ \\#a\\=b\\ "
    assert written(tmp_path) == ""


def value(tag: int, contents: bytes) -> bytes:
    return bytes((tag, len(contents))) + contents


def certificate_for(tag: int, text: bytes) -> bytes:
    """Return the parts of a certificate that are read, with a common name of that kind."""
    attribute = value(0x30, value(0x06, b"\x55\x04\x03") + value(tag, text))
    subject = value(0x30, value(0x31, attribute))
    return value(0x30, value(0x30, value(0x02, b"\1") + 3 * value(0x30, b"") + subject))


@pytest.mark.parametrize(
    ("tag", "text", "name"),
    [
        (0x0C, "ü€".encode(), "CN=ü€"),
        (0x0C, b"\xfc\xc3", "CN=\ufffd\ufffd"),
        *((tag, b"\xfc", "CN=ü") for tag in (0x13, 0x14, 0x16, 0x1B)),
        (0x1E, "ü€".encode("utf-16-be"), "CN=ü€"),
        *((tag, b"12", f"CN=#{tag:02x}023132") for tag in (0x12, 0x1A, 0x1C, 0x04)),
        (0x0C, b"a \n", "CN=a \n"),
        (0x0C, b" \r", "CN=\\ \\\r"),
        (0x0C, b"a\0", "CN=a\\00"),
    ],
)
def test_encodings(tag: int, text: bytes, name: str) -> None:
    """As in current Java; up to 21 it decodes all as UTF-8."""
    assert distinguished_name(certificate_for(tag, text)) == name


WHOLE = certificate_for(0x0C, b"name")


@pytest.mark.parametrize(
    "certificate",
    [
        *(WHOLE[:size] for size in range(len(WHOLE))),
        WHOLE.replace(b"\x31", b"\x30"),
        WHOLE.replace(b"\x06\x03", b"\x05\x03"),
        WHOLE.replace(b"\x0c\x04name", b"\x0c\x80na\0\0"),
        b"\x30\x84\xff\xff\xff\xff",
        b"\x31" + WHOLE[1:],
    ],
)
def test_invalid_certificates(certificate: bytes) -> None:
    """Truncated, with other tags, or with an indefinite length, as in BER."""
    assert distinguished_name(WHOLE) == "CN=name"
    with pytest.raises(ValueError, match="not a certificate in DER"):
        distinguished_name(certificate)
