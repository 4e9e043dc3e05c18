"""What `pybroker doctor` looks at: one function for each matter, from plain values to what is to be said about it."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from tools.data.log_times import Newest

#: Log files have a quarter of the descriptors, 512 at most; a listener's clients what is left.
_FEW_DESCRIPTORS = 4_096
#: The backlog that a listener asks for where socket.listen.backlog.size is not set.
_BACKLOG = 1_024
_LITTLE_SPACE = 1 << 30
_LITTLE_SPACE_PERCENT = 5
#: Dirty pages in percent of the memory at which whoever writes has to wait for the disk.
_MUCH_DIRTY_PERCENT = 40
#: The same for when the kernel begins to write them; its default is 10.
_MUCH_BACKGROUND_PERCENT = 20
#: The kernel's default. The broker itself maps no files (docs/decisions/indexes.md).
_MAPS = 65_530
#: 2026-01-01: this program is not older.
_EARLIEST_MS = 1_767_225_600_000
#: A file system in a network has a clock of its own.
_FILE_SLACK_MS = 60_000
#: message.timestamp.after.max.ms: no broker takes records from farther ahead, unless it is told to.
_RECORD_SLACK_MS = 3_600_000
_KEPT_RIGHT = "timedatectl set-ntp true, or chrony"
_CONNECT_S = 2.0
_IN_MEMORY = ("tmpfs", "ramfs")
_OVER_A_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs")


class Level(Enum):
    """How much somebody has to do about it."""

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One matter that was looked at; `advice` says what to do, unless it is fine."""

    name: str
    level: Level
    what: str
    advice: str = ""


def packages(versions: Mapping[str, str | None], broken: Mapping[str, str]) -> Iterator[Check]:
    """Native packages with which a broker is faster.

    Args:
        versions: None for one that is not there.
        broken: what is said of those that are there, and cannot be loaded.
    """
    loss = {"uvloop": "asyncio's own loop costs twice as much a wake-up", "fastcrc": "checksums in Python are slow"}
    for name, without in loss.items():
        version = versions.get(name)
        if version is None:
            yield Check(name, Level.ADVICE, f"not installed: {without}", f"pip install {name}")
        elif name in broken:
            advice = f"pip install --force-reinstall {name}"
            yield Check(name, Level.ADVICE, f"{version} cannot be loaded ({broken[name]}): {without}", advice)
        else:
            yield Check(name, Level.OK, version)


def compiled(modules: Mapping[str, bool]) -> Check:
    """What is compiled where it is installed: by what it does, whether it is."""
    missing = [what for what, is_there in modules.items() if not is_there]
    if not missing:
        return Check("compiled modules", Level.OK, ", ".join(modules))
    advice = "install a C compiler and Python's headers, then pybroker anew from its sources: a wheel has none"
    return Check("compiled modules", Level.ADVICE, f"not for {', '.join(missing)}: slower there", advice)


def clock(now_ms: int) -> Check:
    """Whether the time of day can be right at all."""
    if now_ms < _EARLIEST_MS:
        what = f"{_time(now_ms)}: before this program was made"
        return Check("clock", Level.WRONG, what, f"set it, and have it kept right ({_KEPT_RIGHT})")
    return Check("clock", Level.OK, _time(now_ms))


def log_times(directory: str, newest: Newest, now_ms: int) -> Check:
    """Whether the clock has gone back behind what it was when the logs of a directory were written."""
    name = f"times in {directory}"
    if newest.written_ms > now_ms + _FILE_SLACK_MS:
        what = f"{newest.written} was written at {_time(newest.written_ms)}, and it is {_time(now_ms)} now"
        return Check(name, Level.ADVICE, what, f"the clock went back: set it before a start ({_KEPT_RIGHT})")
    if newest.record_ms > now_ms + _RECORD_SLACK_MS:
        what = f"{newest.record} has records of {_time(newest.record_ms)}, and it is {_time(now_ms)} now"
        advice = f"retention.ms keeps them for longer: look at this clock and those of producers ({_KEPT_RIGHT})"
        return Check(name, Level.ADVICE, what, advice)
    return Check(name, Level.OK, "none is later than now")


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
    except (ValueError, OverflowError, OSError):  # farther from now than a calendar reaches
        return f"{ms} ms"


def descriptors(limit: int) -> Check:
    """How many files the process may have open, its hard limit."""
    if limit < _FEW_DESCRIPTORS:
        advice = f"raise it: ulimit -n {_FEW_DESCRIPTORS} and more, or LimitNOFILE= of the systemd unit"
        return Check("open files", Level.ADVICE, f"{limit} at most: few clients and partitions", advice)
    return Check("open files", Level.OK, f"{limit} at most")


def kernel(settings: Mapping[str, int]) -> Iterator[Check]:
    """Settings of /proc/sys by name; those that are not there are passed over."""
    somaxconn = settings.get("net.core.somaxconn")
    if somaxconn is not None:
        yield _setting("net.core.somaxconn", somaxconn, somaxconn >= _BACKLOG, "bursts of clients wait", _BACKLOG)
    dirty = settings.get("vm.dirty_ratio", 0)
    if dirty:  # 0: given in bytes
        fine = dirty <= _MUCH_DIRTY_PERCENT
        yield _setting("vm.dirty_ratio", dirty, fine, "a slow disk makes writers wait for long", 20)
    background = settings.get("vm.dirty_background_ratio", 0)
    if background:
        fine = background <= _MUCH_BACKGROUND_PERCENT
        yield _setting("vm.dirty_background_ratio", background, fine, "it is written late and all at once", 5)
    maps = settings.get("vm.max_map_count")
    if maps is not None:
        what = "few for Python, and an Apache Kafka on the same data maps two files a segment"
        yield _setting("vm.max_map_count", maps, maps >= _MAPS, what, 262_144)
    swappiness = settings.get("vm.swappiness")
    if swappiness is not None:
        fine = swappiness <= 60
        yield _setting("vm.swappiness", swappiness, fine, "the process is swapped out for the page cache", 10)


def _setting(name: str, value: int, fine: bool, otherwise: str, better: int) -> Check:
    if fine:
        return Check(name, Level.OK, str(value))
    return Check(name, Level.ADVICE, f"{value}: {otherwise}", f"sysctl -w {name}={better}")


@dataclass(frozen=True, slots=True)
class Disk:
    """Where a log directory lies, or will: the nearest folder that there is."""

    directory: str
    exists: bool
    writable: bool
    file_system: str
    total_bytes: int
    free_bytes: int
    free_inodes: int | None
    """None where a file system does not count them."""


def disk(found: Disk) -> Iterator[Check]:
    """A log directory: whether it can be written, on what, and how much is left."""
    name = f"log.dirs {found.directory}"
    if not found.writable:
        advice = "chown it to the user that the broker runs as, or choose another"
        yield Check(name, Level.WRONG, "cannot be written", advice)
        return
    gib = f"{found.free_bytes / (1 << 30):.1f} GiB free on {found.file_system}"
    what = gib if found.exists else f"is made at the first start; {gib}"
    if found.free_inodes == 0:
        yield Check(
            name, Level.WRONG, f"{what}, but no inode: no file can be made", "remove files, or take another disk"
        )
    elif found.free_bytes < max(_LITTLE_SPACE, found.total_bytes * _LITTLE_SPACE_PERCENT // 100):
        advice = "make room, or bound logs: log.retention.bytes, log.retention.hours"
        yield Check(name, Level.ADVICE, f"{what}: that is little", advice)
    elif found.file_system in _IN_MEMORY:
        yield Check(name, Level.ADVICE, f"{what}: in memory, gone with the machine", "fine for tests only")
    elif found.file_system in _OVER_A_NETWORK:
        advice = "take a local disk: locks and forced writes over a network are slow, or none"
        yield Check(name, Level.ADVICE, f"{what}: over a network", advice)
    elif f"{found.directory}/".startswith("/tmp/"):
        yield Check(name, Level.ADVICE, f"{what}: many systems empty /tmp when they start", "set log.dirs")
    else:
        yield Check(name, Level.OK, what)


def address(listener: str, host: str | None, port: int, others_come_in: bool) -> Check:
    """An address that clients are told: whether it means anything, and whether a broker answers there.

    Args:
        host: None where clients are told the one that they came in on.
        others_come_in: the listener is open to other machines.
    """
    name = f"advertised {listener}"
    if host is None:
        return Check(name, Level.OK, f"the address that a client came in on, port {port}")
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        advice = "set advertised.listeners to a name that clients can resolve"
        reason = "that is no name" if isinstance(error, UnicodeError) else error.strerror or error
        return Check(name, Level.WRONG, f"{host}: {reason}", advice)
    if others_come_in and all(_is_loopback(str(each)) for each in found):
        advice = "set advertised.listeners to the machine's name or address"
        return Check(name, Level.ADVICE, f"{host} is this machine alone: others connect and get no further", advice)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except ConnectionRefusedError:
        return Check(name, Level.OK, f"{host}:{port} leads to a machine that refuses: no broker is running there now")
    except OSError as error:
        advice = "look at firewalls, port forwarding and advertised.listeners"
        return Check(name, Level.ADVICE, f"{host}:{port} cannot be reached from here: {error}", advice)
    return Check(name, Level.OK, f"{host}:{port} is reached, and somebody listens")


def _is_loopback(text: str) -> bool:
    return text.startswith("127.") or text == "::1"


def worst(checks: Iterable[Check]) -> Level:
    """OK, unless there is more to say."""
    levels = {check.level for check in checks}
    return next((level for level in (Level.WRONG, Level.ADVICE) if level in levels), Level.OK)
