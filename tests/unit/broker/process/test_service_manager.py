"""Notifications to systemd, on a socket like its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.process.service_manager import ServiceManager
from tests.support.fake_loop import FakeLoop


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """Set NOTIFY_SOCKET to a socket, and return the socket."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@pybroker-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0"))
        sock.setblocking(False)
        yield name, sock


def received(sock: socket.socket) -> list[list[str]]:
    """Return the lines of the datagrams so far."""
    found = []
    while True:
        try:
            found.append(sock.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found


def test_ready_and_stopping_are_sent(manager: tuple[str, socket.socket]) -> None:
    address, sock = manager
    service = ServiceManager({"NOTIFY_SOCKET": address}, FakeLoop())
    service.ready("Listening")
    service.stopping()

    assert received(sock) == [
        ["READY=1", "STATUS=Listening", f"MAINPID={os.getpid()}"],
        ["STOPPING=1", "STATUS=Shutting down"],
    ]


def test_watchdog_is_notified_twice_per_interval(manager: tuple[str, socket.socket]) -> None:
    """From the loop, so that a blocked loop is detected, and until the close."""
    address, sock = manager
    loop = FakeLoop()
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}
    service = ServiceManager(environ, loop)
    service.ready("")
    assert received(sock)[1:] == [["WATCHDOG=1"]]

    loop.advance(20_000)
    assert received(sock) == [["WATCHDOG=1"]] * 4
    service.close()
    loop.advance(20_000)
    assert received(sock) == []


@pytest.mark.parametrize(
    "environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}]
)
def test_watchdog_of_another_process_is_ignored(environ: dict[str, str]) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/run/notify", **environ}, FakeLoop()).watchdog_s is None


def test_missing_service_manager_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager({}, FakeLoop()).ready("")
    assert not caplog.records

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, FakeLoop()).stopping()
    assert "of STOPPING=1 failed" in caplog.text
