"""Ports on loopback for servers of tests, which have to know them before they start.

Each process of tests takes its own from a part of the numbers below those that the kernel gives clients: one that was
free a moment ago is then not taken by another test's broker, for which a client would mistake this one.
"""

from __future__ import annotations

import os
import random
import socket

HOST = "127.0.0.1"
_FIRST, _PARTS, _PORTS_A_PART = 10_000, 4, 5_500
_part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PARTS
#: The next one to be looked at, in a part; two runs of tests at a time begin somewhere else.
_next = random.SystemRandom().randrange(_PORTS_A_PART)


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many ports in a row."""
    global _next
    while True:
        if _next + count > _PORTS_A_PART:
            _next = 0
        first = _FIRST + _part * _PORTS_A_PART + _next
        _next += count
        if all(map(_is_free, range(first, first + count))):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
