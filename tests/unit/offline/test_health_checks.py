"""What is fine on a machine, and what is to be done."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from offline import health_checks as checks
from offline.health_checks import Check, Disk, Level

DISK = Disk(
    "/var/lib/kafka",
    exists=True,
    writable=True,
    file_system="ext4",
    total_bytes=100 << 30,
    free_bytes=50 << 30,
    free_inodes=1_000,
)


def test_packages_that_make_it_faster() -> None:
    """One that is there, one that is not."""
    uvloop, fastcrc = checks.packages({"uvloop": "0.21", "fastcrc": None})
    assert uvloop == Check("uvloop", Level.OK, "0.21")
    assert (fastcrc.level, fastcrc.advice) == (Level.ADVICE, "pip install fastcrc")


@pytest.mark.parametrize(("limit", "level"), [(1_024, Level.ADVICE), (4_096, Level.OK)])
def test_descriptors(limit: int, level: Level) -> None:
    """Few are for few clients."""
    assert checks.descriptors(limit).level is level


def test_kernel_settings() -> None:
    """Those that stand in the way, with the command that changes them; what is not there is passed over."""
    assert list(checks.kernel({"vm.dirty_ratio": 0})) == []
    fine = checks.kernel({"net.core.somaxconn": 4096, "vm.dirty_ratio": 20, "vm.swappiness": 60})
    assert [check.level for check in fine] == [Level.OK] * 3
    slow = checks.kernel({"net.core.somaxconn": 128, "vm.dirty_ratio": 80, "vm.swappiness": 100})
    advice = ["sysctl -w net.core.somaxconn=1024", "sysctl -w vm.dirty_ratio=20", "sysctl -w vm.swappiness=10"]
    assert [check.advice for check in slow] == advice


@pytest.mark.parametrize(
    ("disk", "level", "what"),
    [
        (DISK, Level.OK, "50.0 GiB free on ext4"),
        (replace(DISK, exists=False), Level.OK, "is made at the first start; 50.0 GiB free on ext4"),
        (replace(DISK, writable=False), Level.WRONG, "cannot be written"),
        (replace(DISK, free_inodes=0), Level.WRONG, "but no inode"),
        (replace(DISK, free_inodes=None), Level.OK, "free"),
        (replace(DISK, free_bytes=4 << 30), Level.ADVICE, "that is little"),
        (replace(DISK, file_system="tmpfs"), Level.ADVICE, "in memory"),
        (replace(DISK, file_system="nfs4"), Level.ADVICE, "over a network"),
        (replace(DISK, directory="/tmp/kafka-logs"), Level.ADVICE, "/tmp"),
        (replace(DISK, directory="/tmpfiles"), Level.OK, "free"),
    ],
)
def test_log_directories(disk: Disk, level: Level, what: str) -> None:
    """One matter each, the worst first."""
    (check,) = checks.disk(disk)
    assert check.level is level
    assert what in check.what


class Network:
    """One name, and what is at its address."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ip: str, failure: OSError | None = None) -> None:
        self._ip, self._failure = ip, failure
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)
        monkeypatch.setattr(socket, "create_connection", self._connect)

    def _resolve(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host != "broker":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self._ip, port))]

    def _connect(self, address: tuple[str, int], timeout: float) -> socket.socket:
        if self._failure is not None:
            raise self._failure
        return socket.socket()


@pytest.mark.parametrize(
    ("failure", "level", "what"),
    [
        (None, Level.OK, "broker:9092 is reached, and somebody listens"),
        (ConnectionRefusedError(111, "refused"), Level.OK, "no broker is running there now"),
        (TimeoutError("timed out"), Level.ADVICE, "broker:9092 cannot be reached from here: timed out"),
    ],
)
def test_advertised_address(monkeypatch: pytest.MonkeyPatch, failure: OSError | None, level: Level, what: str) -> None:
    """Whether it is to be reached."""
    Network(monkeypatch, "192.0.2.7", failure)
    check = checks.address("PLAINTEXT", "broker", 9092, others_come_in=True)
    assert check.level is level
    assert check.what.endswith(what)


def test_advertised_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client would get any further."""
    Network(monkeypatch, "192.0.2.7")
    check = checks.address("PLAINTEXT", "brokre", 9092, others_come_in=True)
    assert (check.level, check.what) == (Level.WRONG, "brokre: Name or service not known")


def test_advertised_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fine where nobody else can come in."""
    Network(monkeypatch, "127.0.0.1")
    assert checks.address("PLAINTEXT", "broker", 9092, others_come_in=True).level is Level.ADVICE
    assert checks.address("PLAINTEXT", "broker", 9092, others_come_in=False).level is Level.OK
    assert checks.address("PLAINTEXT", None, 9092, others_come_in=True).level is Level.OK


def test_the_worst_counts() -> None:
    """Whatever stands beside it."""
    every = [Check("a", Level.OK, ""), Check("b", Level.WRONG, ""), Check("c", Level.ADVICE, "")]
    assert checks.worst(every) is Level.WRONG
    assert checks.worst(every[::2]) is Level.ADVICE
    assert checks.worst(every[:1]) is Level.OK
