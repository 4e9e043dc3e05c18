"""The checks of `pybroker doctor`: each function turns plain values into a result with advice."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from tools.data.log_times import Newest

#: Log files use a quarter of the descriptors, at most 512; clients use the rest.
_FEW_DESCRIPTORS = 4_096
#: A listener's backlog if socket.listen.backlog.size is not set.
_BACKLOG = 1_024
_LITTLE_SPACE = 1 << 30
_LITTLE_SPACE_PERCENT = 5
#: The percentage of memory in dirty pages at which writers have to wait for the disk.
_MUCH_DIRTY_PERCENT = 40
#: The same for the start of background writes; the kernel's default is 10.
_MUCH_BACKGROUND_PERCENT = 20
#: The kernel's default. The broker itself maps no files (docs/decisions/indexes.md).
_MAPS = 65_530
#: 2026-01-01: the release date of no version is earlier.
_EARLIEST_MS = 1_767_225_600_000
#: Network file systems may have another clock.
_FILE_SLACK_MS = 60_000
#: message.timestamp.after.max.ms: the default limit of record timestamps in the future.
_RECORD_SLACK_MS = 3_600_000
_KEPT_RIGHT = "timedatectl set-ntp true, or chrony"
_CONNECT_S = 2.0
_IN_MEMORY = ("tmpfs", "ramfs")
_OVER_A_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs")


class Level(Enum):
    """How urgent a finding is."""

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; `advice` says what to do if it is not OK."""

    name: str
    level: Level
    what: str
    advice: str = ""


def packages(versions: Mapping[str, str | None], broken: Mapping[str, str]) -> Iterator[Check]:
    """Check the native packages that make a broker faster.

    Args:
        versions: by package; None for one that is not installed.
        broken: the error message of installed packages that cannot be loaded.
    """
    loss = {"uvloop": "a wake-up of asyncio's own loop costs twice as much", "fastcrc": "checksums in Python are slow"}
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
    """Check which modules were compiled at the installation: whether each function's module was."""
    missing = [what for what, is_there in modules.items() if not is_there]
    if not missing:
        return Check("compiled modules", Level.OK, ", ".join(modules))
    advice = "install a C compiler and Python's headers, then reinstall pybroker from sources, not from a wheel"
    return Check("compiled modules", Level.ADVICE, f"missing for {', '.join(missing)}; they are slower without", advice)


def clock(now_ms: int) -> Check:
    """Check that the time of day is plausible."""
    if now_ms < _EARLIEST_MS:
        what = f"{_time(now_ms)}: before this program was written"
        return Check("clock", Level.WRONG, what, f"set the clock and synchronize it ({_KEPT_RIGHT})")
    return Check("clock", Level.OK, _time(now_ms))


def log_times(directory: str, newest: Newest, now_ms: int) -> Check:
    """Check that the clock was not set back since the logs of a directory were written."""
    name = f"times in {directory}"
    if newest.written_ms > now_ms + _FILE_SLACK_MS:
        what = f"{newest.written} was written at {_time(newest.written_ms)}, and it is {_time(now_ms)} now"
        return Check(name, Level.ADVICE, what, f"the clock was set back: correct it before a start ({_KEPT_RIGHT})")
    if newest.record_ms > now_ms + _RECORD_SLACK_MS:
        what = f"{newest.record} has records of {_time(newest.record_ms)}, and it is {_time(now_ms)} now"
        advice = f"retention.ms keeps them longer: check this machine's clock and the producers' ({_KEPT_RIGHT})"
        return Check(name, Level.ADVICE, what, advice)
    return Check(name, Level.OK, "no time is in the future")


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{ms} ms"


def descriptors(limit: int) -> Check:
    """Check the limit of open files of the process, its hard limit."""
    if limit < _FEW_DESCRIPTORS:
        advice = f"raise it: ulimit -n {_FEW_DESCRIPTORS} and more, or LimitNOFILE= of the systemd unit"
        return Check("open files", Level.ADVICE, f"{limit} at most: few clients and partitions", advice)
    return Check("open files", Level.OK, f"{limit} at most")


def kernel(settings: Mapping[str, int]) -> Iterator[Check]:
    """Check settings of /proc/sys, by name; missing ones are skipped."""
    somaxconn = settings.get("net.core.somaxconn")
    if somaxconn is not None:
        yield _setting("net.core.somaxconn", somaxconn, somaxconn >= _BACKLOG, "bursts of clients wait", _BACKLOG)
    dirty = settings.get("vm.dirty_ratio", 0)
    if dirty:  # 0: the limit is set in bytes
        fine = dirty <= _MUCH_DIRTY_PERCENT
        yield _setting("vm.dirty_ratio", dirty, fine, "writers wait long for a slow disk", 20)
    background = settings.get("vm.dirty_background_ratio", 0)
    if background:
        fine = background <= _MUCH_BACKGROUND_PERCENT
        yield _setting("vm.dirty_background_ratio", background, fine, "dirty pages are written late and all at once", 5)
    maps = settings.get("vm.max_map_count")
    if maps is not None:
        what = "few for Python; Apache Kafka on the same data maps two files a segment"
        yield _setting("vm.max_map_count", maps, maps >= _MAPS, what, 262_144)
    swappiness = settings.get("vm.swappiness")
    if swappiness is not None:
        fine = swappiness <= 60
        yield _setting("vm.swappiness", swappiness, fine, "the kernel swaps the process out for the page cache", 10)


def _setting(name: str, value: int, fine: bool, otherwise: str, better: int) -> Check:
    if fine:
        return Check(name, Level.OK, str(value))
    return Check(name, Level.ADVICE, f"{value}: {otherwise}", f"sysctl -w {name}={better}")


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a log directory: the nearest existing folder."""

    directory: str
    exists: bool
    writable: bool
    file_system: str
    total_bytes: int
    free_bytes: int
    free_inodes: int | None
    """None if the file system does not count inodes."""


def disk(found: Disk) -> Iterator[Check]:
    """Check a log directory: permissions, file system, free space."""
    name = f"log.dirs {found.directory}"
    if not found.writable:
        advice = "chown it to the user that the broker runs as, or choose another"
        yield Check(name, Level.WRONG, "not writable", advice)
        return
    gib = f"{found.free_bytes / (1 << 30):.1f} GiB free on {found.file_system}"
    what = gib if found.exists else f"created at the first start; {gib}"
    if found.free_inodes == 0:
        yield Check(name, Level.WRONG, f"{what}, but no free inode for new files", "remove files, or use another disk")
    elif found.free_bytes < max(_LITTLE_SPACE, found.total_bytes * _LITTLE_SPACE_PERCENT // 100):
        advice = "make room, or bound logs: log.retention.bytes, log.retention.hours"
        yield Check(name, Level.ADVICE, f"{what}: too little", advice)
    elif found.file_system in _IN_MEMORY:
        yield Check(name, Level.ADVICE, f"{what}: in memory, lost when the machine stops", "use it for tests only")
    elif found.file_system in _OVER_A_NETWORK:
        advice = "use a local disk: locks and flushes over a network are slow or missing"
        yield Check(name, Level.ADVICE, f"{what}, a network file system", advice)
    elif f"{found.directory}/".startswith("/tmp/"):
        yield Check(name, Level.ADVICE, f"{what}: many systems empty /tmp when they start", "set log.dirs")
    else:
        yield Check(name, Level.OK, what)


def address(listener: str, host: str | None, port: int, others_come_in: bool) -> Check:
    """Check an advertised address: whether it resolves, and whether a broker answers there.

    Args:
        host: None if clients get the address that they connected to.
        others_come_in: whether the listener accepts other machines.
    """
    name = f"advertised {listener}"
    if host is None:
        return Check(name, Level.OK, f"the address that the client connected to, port {port}")
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        advice = "set advertised.listeners to a name that clients can resolve"
        reason = "not a valid name" if isinstance(error, UnicodeError) else error.strerror or error
        return Check(name, Level.WRONG, f"{host}: {reason}", advice)
    if others_come_in and all(_is_loopback(str(each)) for each in found):
        advice = "set advertised.listeners to the machine's name or address"
        return Check(name, Level.ADVICE, f"{host} is this machine only: clients on others cannot use it", advice)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except ConnectionRefusedError:
        return Check(name, Level.OK, f"{host}:{port} refuses connections: no broker is running there now")
    except OSError as error:
        advice = "check firewalls, port forwarding and advertised.listeners"
        return Check(name, Level.ADVICE, f"{host}:{port} cannot be reached from here: {error}", advice)
    return Check(name, Level.OK, f"{host}:{port} accepts connections")


def controller(host: str, port: int) -> Check:
    """Check the address of a controller, which a member of its cluster needs to start."""
    name = f"controller {host}:{port}"
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        reason = "not a valid name" if isinstance(error, UnicodeError) else error.strerror or str(error)
        advice = "start the controllers first, and check controller.quorum.bootstrap.servers"
        return Check(name, Level.ADVICE, reason, advice)
    return Check(name, Level.OK, "accepts connections")


def _is_loopback(text: str) -> bool:
    return text.startswith("127.") or text == "::1"


def worst(checks: Iterable[Check]) -> Level:
    """Return the highest level; OK without checks."""
    levels = {check.level for check in checks}
    return next((level for level in (Level.WRONG, Level.ADVICE) if level in levels), Level.OK)
