"""Addresses of a started broker for programs on this machine."""

from __future__ import annotations

import pytest

from broker.process.announcement import reachable
from config import load
from tools.wire.sessions.addresses import Address, address


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1:9"),
        ("example.org", "example.org:9"),
        ("[fddb:1e1b:80b7::1]", "[fddb:1e1b:80b7::1]:9"),
        ("fddb:1e1b:80b7::1", "[fddb:1e1b:80b7::1]:9"),
        ("[fe80::1%eth0]", "[fe80::1%eth0]:9"),
        *((host, "localhost:9") for host in ("", "0.0.0.0", "[::]", "[::0]", "[::ffff:0.0.0.0]")),
    ],
)
def test_address_has_brackets_once(host: str, shown: str) -> None:
    """An IPv6 address in one pair of brackets, which commands accept. All interfaces are localhost."""
    config = load(overrides={"listeners": f"PLAINTEXT://{host}:0"})

    assert reachable(config, "PLAINTEXT", 9) == shown
    assert address(shown) == Address(shown.removesuffix(":9").strip("[]"), 9)
