"""Names in certificates, as one line; tests/conformance/test_user_names.py asks Java about more of them."""

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
    """The name of a certificate that has these parts."""
    named = x509.Name(
        x509.RelativeDistinguishedName([x509.NameAttribute(kind, text) for kind, text in part]) for part in parts
    )
    issued = Authority(tmp_path).issue("any", subject=named).read_text()
    begin = issued.index("-----BEGIN CERTIFICATE-----")
    end = "-----END CERTIFICATE-----"
    return distinguished_name(PEM_cert_to_DER_cert(issued[begin : issued.index(end) + len(end)]))


@pytest.mark.parametrize(("size", "head"), [(127, "167f"), (128, "168180"), (255, "1681ff"), (300, "1682012c")])
def test_attributes_without_a_short_name_are_whole_in_der(tmp_path: Path, size: int, head: str) -> None:
    """Also those whose length takes more than a byte."""
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


@pytest.mark.parametrize("certificate", [b"", b"\x30", b"\x30\x00", b"\x30\x02\x30\x00", b"\x30\x84\xff\xff\xff\xff"])
def test_what_is_no_certificate(certificate: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate in DER"):
        distinguished_name(certificate)
