"""Alternative names in certificates; tests/conformance/test_user_names.py compares them with Java's."""

from __future__ import annotations

import pytest

from security.alternative_names import alternative_names


def value(tag: int, *contents: bytes) -> bytes:
    whole = b"".join(contents)
    return bytes((tag, len(whole))) + whole


SAN = value(0x06, b"\x55\x1d\x11")
CRITICAL = value(0x01, b"\xff")


def certificate_with(*extensions: bytes) -> bytes:
    """Return the parts of a certificate that are read, with these extensions."""
    listed = value(0xA3, value(0x30, *extensions))
    fields = (value(0x02, b"\1"), *[value(0x30)] * 5, value(0x81, b"\0"), listed)
    return value(0x30, value(0x30, *fields))


def named(*names: bytes) -> bytes:
    return certificate_with(
        value(0x30, value(0x06, b"\x55\x1d\x0f"), CRITICAL, value(0x04, b"no names")),
        value(0x30, SAN, value(0x04, value(0x30, *names))),
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (value(0x82, b"localhost"), (2, "localhost")),
        (value(0x82, b"\xfc"), (2, "\xfc")),
        (value(0x81, b"a@b"), (1, "a@b")),
        (value(0x86, b"x:y"), (6, "x:y")),
        (value(0x87, b"\x7f\0\0\1"), (7, "127.0.0.1")),
        (value(0x87, bytes(14) + b"\xab\1"), (7, "0:0:0:0:0:0:0:ab01")),
        (value(0x88, b"\x2a\3"), (8, "1.2.3")),
        (value(0xA4, value(0x30)), (4, "")),
        (value(0xA0, b"any"), (0, "#a003616e79")),
        (value(0xA3, b"any"), (3, "#a303616e79")),
        (value(0x87, b"abc"), (7, "#8703616263")),
        (value(0x88, b""), (8, "#8800")),
        (value(0xA4, b""), (4, "#a400")),
        (value(0xA4, value(0x31)), (4, "#a4023100")),
        (value(0xA4, value(0x30, value(0x31, value(0x30)))), (4, "#a406300431023000")),
    ],
)
def test_kinds(name: bytes, written: tuple[int, str]) -> None:
    """An invalid value is returned as its bytes."""
    assert alternative_names(named(name)) == {written}
    assert alternative_names(named(name, value(0x82, b"x"))) == {written, (2, "x")}


def test_no_alternative_names() -> None:
    assert alternative_names(named()) == frozenset()
    assert alternative_names(certificate_with()) == frozenset()
    assert alternative_names(value(0x30, value(0x30, value(0x02, b"\1"), *[value(0x30)] * 5))) == frozenset()


@pytest.mark.parametrize("extension", [b"", b"x", value(0x31), value(0x30) * 2])
def test_invalid_extension(extension: bytes) -> None:
    certificate = certificate_with(value(0x30, SAN, CRITICAL, value(0x04, extension)))
    with pytest.raises(ValueError, match="not a certificate in DER"):
        alternative_names(certificate)
