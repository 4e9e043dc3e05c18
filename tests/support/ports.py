"""Free loopback ports for servers whose ports must be known before the start.

Each of up to four test processes uses its own part of the range below the kernel's usual client ports. So no other
test's broker takes a port that was free a moment ago, and is mistaken for this one. Two test runs on one machine begin
at random places, and `listens` detects a collision.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from tests.support.processes import descriptors, family

HOST = "127.0.0.1"
_FIRST, _PARTS, _PORTS_A_PART = 10_000, 4, 5_500
#: the state of a socket in the kernel's tables
_LISTENS = "0A"
_part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PARTS
#: the next port to check within a part, from a random start: two runs may be under way
_next = random.SystemRandom().randrange(_PORTS_A_PART)


def free_port() -> int:
    """Return a port on which no process listens now."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports."""
    global _next
    while True:
        if _next + count > _PORTS_A_PART:
            _next = 0
        first = _FIRST + _part * _PORTS_A_PART + _next
        _next += count
        if all(map(_is_free, range(first, first + count))):
            return first


def listens(pid: int, port: int) -> bool:
    """Return whether that process or a child of it listens on the port; True if the system does not show it."""
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
