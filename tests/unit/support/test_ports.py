"""Ports of tests' brokers, and who has them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tests.support.ports import HOST, free_port, free_ports, listens


def test_ports_in_a_row_are_free_and_no_ones_before() -> None:
    first, second = free_ports(3), free_port()
    assert second not in range(first, first + 3)
    with socket.create_server((HOST, first + 2)), socket.create_server((HOST, second)):
        assert not set(range(free_ports(50), 50)) & {first + 2, second}


def test_who_listens() -> None:
    """This process, one that it has started, nobody; and not whoever else listens there."""
    port = free_port()
    assert not listens(os.getpid(), port)
    with socket.create_server((HOST, port)) as server:
        assert listens(os.getpid(), port)
        wait = [sys.executable, "-c", "input()"]
        with subprocess.Popen(wait, stdin=subprocess.PIPE) as other:
            assert not listens(other.pid, port)
            other.communicate()
        given = {"pass_fds": (server.fileno(),)}
        child = subprocess.Popen(wait, stdin=subprocess.PIPE, **given)  # type: ignore[call-overload]
        server.close()
        assert listens(os.getpid(), port)
        assert listens(child.pid, port)
        child.communicate()
    assert not listens(os.getpid(), port)
