"""Ports on loopback for servers of tests, which have to know them before they start.

Each of up to four processes of tests takes its own from a part of the numbers below those that the kernel usually gives
clients: one that was free a moment ago is then not taken by another test's broker, which would be mistaken for this
one. Where two runs of tests are under way on a machine, chance keeps them apart, and `listens` tells.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from tests.support.processes import descriptors, family

HOST = "127.0.0.1"
_FIRST, _PARTS, _PORTS_A_PART = 10_000, 4, 5_500
#: The state of a socket in the kernel's tables.
_LISTENS = "0A"
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


def listens(pid: int, port: int) -> bool:
    """Whether that process, or one that it has started, listens there; True where the system does not tell."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTENS and row[1].endswith(f":{port:04X}")}
    return not tables or any(not sockets.isdisjoint(descriptors(each)) for each in family(pid))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
