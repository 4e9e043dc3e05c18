"""Ranges of addresses in access control entries, read as Apache Kafka 4.4.0's CidrUtils reads them."""

from __future__ import annotations

import re

import pytest

from security.cidr import address_of, parse_range

NOT_IPV6 = " - not an IPv6 address"
NO_LENGTH, OUT_OF_RANGE = " - invalid prefix length", " - prefix length must be between 0 and 128"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.1", "9.255.255.255", "0:0:0:0:0:0:0:1"]),
        ("10.1.2.3/8", ["10.0.0.1"], ["11.0.0.1"]),
        ("010.000.000.001/08", ["10.0.0.1"], ["8.0.0.1"]),
        ("10.0.0.1/31", ["10.0.0.0", "10.0.0.1"], ["10.0.0.2"]),
        ("10.0.0.1/32", ["10.0.0.1"], ["10.0.0.0", "10.0.0.2"]),
        ("10.0.0.0/0", ["127.0.0.1", "255.255.255.255"], ["0.0.0.0", "1:2:3:4:5:6:7:8"]),
        ("2001:DB8::/32", ["2001:db8:0:0:0:0:0:1", "2001:db8::1"], ["2001:db9:0:0:0:0:0:1", "10.0.0.1"]),
        ("::/0", ["0:0:0:0:0:0:0:0", "fe80:0:0:0:0:0:0:1%1"], ["10.0.0.1"]),
        ("::1/128", ["0:0:0:0:0:0:0:1"], ["0:0:0:0:0:0:0:2"]),
        ("[::1]/128", ["0:0:0:0:0:0:0:1"], ["0:0:0:0:0:0:0:2"]),
        ("fe80::1%1/64", ["fe80:0:0:0:0:0:0:9"], ["fe81:0:0:0:0:0:0:9"]),
        ("1:2:3:4:5:6:10.0.0.1/64", ["1:2:3:4:5:6:7:8"], ["1:2:3:5:5:6:7:8"]),
        ("2001:db8::1/+1", ["0:0:0:0:0:0:0:1"], ["fe80:0:0:0:0:0:0:1"]),
        ("00001::/0000000016", ["1:2:3:4:5:6:7:8"], ["2:2:3:4:5:6:7:8"]),
    ],
)
def test_addresses_of_a_range(text: str, inside: list[str], outside: list[str]) -> None:
    found = parse_range(text)
    assert [found.has(address_of(host)) for host in inside] == [True] * len(inside)
    assert [found.has(address_of(host)) for host in outside] == [False] * len(outside)


@pytest.mark.parametrize("host", ["", "localhost", "::g", "10.0.0", "10.0.0.256", "::ffff:10.0.0.1", "0.0.0.0"])
def test_other_hosts_are_in_no_range(host: str) -> None:
    assert not any(parse_range(text).has(address_of(host)) for text in ("0.0.0.0/0", "::/0"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("256.0.0.0/8", "Value [256] not in range [0,255]"),
        ("10.0.0.999/40", "Value [999] not in range [0,255]"),
        *((text, f"Could not parse [{text}]") for text in ("/", "/8", "x/0", "x/8", "*/8", "10.0.0.0/", "10.0.0/8")),
        *(
            (text, f"Could not parse [{text}]")
            for text in ("10.0.0.0/-1", "10.0.0.0/032", "10.0.0.0/8/9", "1.2.3.4.5/8")
        ),
        *(
            (text, f"Could not parse [{text}]")
            for text in (" 10.0.0.0/8", "10.0.0.0/8 ", "10.0.0.0/8\n", "\u06610.0.0.0/8")
        ),
        *((text, f"Could not parse [{text}]{OUT_OF_RANGE}") for text in ("2001:db8::/129", "::/-1", "zz:/129")),
        *((text, f"Could not parse [{text}]{NO_LENGTH}") for text in ("::1/", "::1/a", "::1/ 64", "::1/64 ", "::/1_0")),
        *((text, f"Could not parse [{text}]{NO_LENGTH}") for text in ("::1/32/3", "/64:", "::/2147483648", "::/++1")),
        *(
            (f"{address}/8", f"Could not parse [{address}]")
            for address in (":", "a:", "host:1", "2001:db8::g", "1::2::3", "12345::", "1_0::", " ::1", "::1 ", "%1::")
        ),
        *(
            (f"{address}/8", f"Could not parse [{address}]")
            for address in (
                "::1%",
                "[::1",
                "[::1]:80",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                "::10.0.0.256",
                "::10.0.0",
            )
        ),
        *((f"{text}/104", f"Could not parse [{text}]{NOT_IPV6}") for text in ("::ffff:10.0.0.0", "::FFFF:A00:0")),
    ],
)
def test_malformed_ranges(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        parse_range(text)


def test_a_very_long_range_is_malformed() -> None:
    text = "::/" + "1" * 30_000
    with pytest.raises(ValueError, match="invalid prefix length"):
        parse_range(text)
    with pytest.raises(ValueError, match="Could not parse"):
        parse_range("1" * 30_000 + "::/8")
