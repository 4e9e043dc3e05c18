"""Checks of the machine, and what the user should do."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from tools import health_checks as checks
from tools.data.log_times import Newest
from tools.health_checks import Check, Disk, Level

NOW_MS = 1_800_000_000_000

DISK = Disk(
    "/var/lib/kafka",
    exists=True,
    writable=True,
    file_system="ext4",
    total_bytes=100 << 30,
    free_bytes=50 << 30,
    free_inodes=1_000,
)


def test_optional_packages() -> None:
    """One is installed, one is missing, one cannot be loaded."""
    uvloop, fastcrc = checks.packages({"uvloop": "0.21", "fastcrc": None}, {"fastcrc": "No module"})
    assert uvloop == Check("uvloop", Level.OK, "0.21")
    assert (fastcrc.level, fastcrc.advice) == (Level.ADVICE, "pip install fastcrc")
    uvloop, fastcrc = checks.packages({"uvloop": "0.21", "fastcrc": "0.5"}, {"uvloop": "libc is too old"})
    assert uvloop.level is Level.ADVICE
    assert uvloop.what.startswith("0.21 cannot be loaded (libc is too old): ")
    assert fastcrc.level is Level.OK


@pytest.mark.parametrize(
    ("modules", "what"),
    [
        ({"compaction": True, "Arrow": True}, "compaction, Arrow"),
        ({"compaction": True, "Arrow": False}, "missing for Arrow; they are slower without"),
        ({"compaction": False, "Arrow": False}, "missing for compaction, Arrow; they are slower without"),
    ],
)
def test_missing_compiled_modules_are_advice(modules: dict[str, bool], what: str) -> None:
    """With the command that builds them."""
    check = checks.compiled(modules)
    assert (check.what, bool(check.advice)) == (what, not all(modules.values()))


@pytest.mark.parametrize(
    ("now_ms", "level", "what"),
    [
        (0, Level.WRONG, "1970-01-01 00:00:00 UTC: before this program was written"),
        (NOW_MS, Level.OK, "2027-01-15 08:00:00 UTC"),
        (1 << 61, Level.OK, "2305843009213693952 ms"),
    ],
)
def test_clock_has_to_be_plausible(now_ms: int, level: Level, what: str) -> None:
    """One was never set, and one is beyond the calendar, but still shown."""
    check = checks.clock(now_ms)
    assert (check.level, check.what) == (level, what)


@pytest.mark.parametrize(
    ("newest", "what"),
    [
        (Newest(), "no time is in the future"),
        (Newest(NOW_MS + 60_000, "orders-0", NOW_MS + 3_600_000, "orders-1"), "no time is in the future"),
        (
            Newest(NOW_MS + 61_000, "orders-0", NOW_MS + 7_200_000, "orders-1"),
            "orders-0 was written at 2027-01-15 08:01:01 UTC, and it is 2027-01-15 08:00:00 UTC now",
        ),
        (
            Newest(NOW_MS, "orders-0", NOW_MS + 86_400_000, "orders-1"),
            "orders-1 has records of 2027-01-16 08:00:00 UTC, and it is 2027-01-15 08:00:00 UTC now",
        ),
    ],
)
def test_clock_behind_the_logs_is_advice(newest: Newest, what: str) -> None:
    """Files have this machine's time. Records may be ahead as far as a broker accepts."""
    check = checks.log_times("data", newest, NOW_MS)
    assert check.what == what
    assert (check.level is Level.OK) == (what == "no time is in the future") == (not check.advice)


@pytest.mark.parametrize(("limit", "level"), [(1_024, Level.ADVICE), (4_096, Level.OK)])
def test_few_descriptors_are_advice(limit: int, level: Level) -> None:
    assert checks.descriptors(limit).level is level


def test_kernel_settings_are_checked() -> None:
    """With the command that changes them. Missing ones are skipped."""
    assert list(checks.kernel({"vm.dirty_ratio": 0})) == []
    names = ("net.core.somaxconn", "vm.dirty_ratio", "vm.dirty_background_ratio", "vm.max_map_count", "vm.swappiness")
    fine = checks.kernel(dict(zip(names, (4096, 20, 10, 65_530, 60), strict=True)))
    assert [check.level for check in fine] == [Level.OK] * 5
    slow = checks.kernel(dict(zip(names, (128, 80, 50, 1_000, 100), strict=True)))
    better = dict(zip(names, (1024, 20, 5, 262_144, 10), strict=True))
    assert [check.advice for check in slow] == [f"sysctl -w {name}={value}" for name, value in better.items()]


@pytest.mark.parametrize(
    ("disk", "level", "what"),
    [
        (DISK, Level.OK, "50.0 GiB free on ext4"),
        (replace(DISK, exists=False), Level.OK, "created at the first start; 50.0 GiB free on ext4"),
        (replace(DISK, writable=False), Level.WRONG, "not writable"),
        (replace(DISK, free_inodes=0), Level.WRONG, "but no free inode"),
        (replace(DISK, free_inodes=None), Level.OK, "free"),
        (replace(DISK, free_bytes=4 << 30), Level.ADVICE, "too little"),
        (replace(DISK, file_system="tmpfs"), Level.ADVICE, "in memory"),
        (replace(DISK, file_system="nfs4"), Level.ADVICE, "a network file system"),
        (replace(DISK, directory="/tmp/kafka-logs"), Level.ADVICE, "/tmp"),
        (replace(DISK, directory="/tmpfiles"), Level.OK, "free"),
    ],
)
def test_log_directories_are_checked(disk: Disk, level: Level, what: str) -> None:
    """One result each, the worst first."""
    (check,) = checks.disk(disk)
    assert check.level is level
    assert what in check.what


class Network:
    """One host name, and the program at its address."""

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
        (None, Level.OK, "broker:9092 accepts connections"),
        (ConnectionRefusedError(111, "refused"), Level.OK, "no broker is running there now"),
        (TimeoutError("timed out"), Level.ADVICE, "broker:9092 cannot be reached from here: timed out"),
    ],
)
def test_advertised_address_has_to_be_reachable(
    monkeypatch: pytest.MonkeyPatch, failure: OSError | None, level: Level, what: str
) -> None:
    Network(monkeypatch, "192.0.2.7", failure)
    check = checks.address("PLAINTEXT", "broker", 9092, others_come_in=True)
    assert check.level is level
    assert check.what.endswith(what)


def test_unknown_advertised_name_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client could connect."""
    Network(monkeypatch, "192.0.2.7")
    check = checks.address("PLAINTEXT", "brokre", 9092, others_come_in=True)
    assert (check.level, check.what) == (Level.WRONG, "brokre: Name or service not known")


def test_invalid_advertised_name_fails() -> None:
    """A label of it is empty or too long."""
    for host in ("broker..local", "b" * 64):
        check = checks.address("PLAINTEXT", host, 9092, others_come_in=True)
        assert (check.level, check.what) == (Level.WRONG, f"{host}: not a valid name")


def test_advertised_loopback_needs_loopback_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fine if other machines cannot connect."""
    Network(monkeypatch, "127.0.0.1")
    assert checks.address("PLAINTEXT", "broker", 9092, others_come_in=True).level is Level.ADVICE
    assert checks.address("PLAINTEXT", "broker", 9092, others_come_in=False).level is Level.OK
    assert checks.address("PLAINTEXT", None, 9092, others_come_in=True).level is Level.OK


def test_worst_result_counts() -> None:
    every = [Check("a", Level.OK, ""), Check("b", Level.WRONG, ""), Check("c", Level.ADVICE, "")]
    assert checks.worst(every) is Level.WRONG
    assert checks.worst(every[::2]) is Level.ADVICE
    assert checks.worst(every[:1]) is Level.OK
