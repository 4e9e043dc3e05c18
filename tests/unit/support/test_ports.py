"""Ports of the tests' brokers, and which process listens on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tests.support import ports
from tests.support.ports import HOST, free_port, free_ports, listens


def test_ports_in_a_row_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port in use is skipped, and so is every row that contains it."""
    monkeypatch.setattr(ports, "_next", min(ports._next, ports._PORTS_A_PART - 20))
    taken = free_ports(3) + 1
    before = ports._next - 3
    with socket.create_server((HOST, taken)):
        monkeypatch.setattr(ports, "_next", before)
        assert free_ports(3) == taken + 2
        monkeypatch.setattr(ports, "_next", before + 1)
        assert free_port() == taken + 1


def test_ports_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last port of its part comes the first."""
    first = free_port() - ports._next + 1
    monkeypatch.setattr(ports, "_next", ports._PORTS_A_PART - 1)
    assert first <= free_ports(2) < first + 100


def test_which_process_listens() -> None:
    """This process, one that it has started, or none. Other processes that listen there do not count."""
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
