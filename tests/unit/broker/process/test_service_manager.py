"""What systemd is told, on a socket as it has one."""

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
    """NOTIFY_SOCKET, and the socket itself."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@pybroker-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0"))
        sock.setblocking(False)
        yield name, sock


def told(sock: socket.socket) -> list[list[str]]:
    """The datagrams so far, in lines."""
    found = []
    while True:
        try:
            found.append(sock.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found


def test_ready_and_stopping_are_told(manager: tuple[str, socket.socket]) -> None:
    address, sock = manager
    service = ServiceManager({"NOTIFY_SOCKET": address}, FakeLoop())
    service.ready("Listening")
    service.stopping()

    assert told(sock) == [
        ["READY=1", "STATUS=Listening", f"MAINPID={os.getpid()}"],
        ["STOPPING=1", "STATUS=Shutting down"],
    ]


def test_watchdog_hears_twice_as_often_as_it_asks_for(manager: tuple[str, socket.socket]) -> None:
    """From the loop, so that one that stands still is not heard of; until it is closed."""
    address, sock = manager
    loop = FakeLoop()
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}
    service = ServiceManager(environ, loop)
    service.ready("")
    assert told(sock)[1:] == [["WATCHDOG=1"]]

    loop.advance(20_000)
    assert told(sock) == [["WATCHDOG=1"]] * 4
    service.close()
    loop.advance(20_000)
    assert told(sock) == []


@pytest.mark.parametrize(
    "environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}]
)
def test_no_watchdog_asks_for_this_process(environ: dict[str, str]) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/run/notify", **environ}, FakeLoop()).watchdog_s is None


def test_where_nobody_listens_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A manager that is gone is worth a line, and no more."""
    ServiceManager({}, FakeLoop()).ready("")
    assert not caplog.records

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, FakeLoop()).stopping()
    assert "cannot be told STOPPING=1" in caplog.text
