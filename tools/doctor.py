"""`pybroker doctor [FILE]`: check whether this machine is ready for a broker with that configuration.

Exit code 0, also with advice; 1 if something prevents a broker from starting or serving; 2 for a bad command line or an
unreadable file.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from config import BrokerConfig, ConfigError, load
from config.listeners import is_wildcard
from controller.directory_checks import inspect
from protocol.records import compiled_fields as arrow
from pybroker.cli.exit_codes import end
from storage.cleaner import compiled_walk as compaction
from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from tools import health_checks as checks
from tools.command_line import OfflineParser
from tools.data.log_times import newest_times
from tools.health_checks import Check, Disk, Level

_KERNEL = (
    "net.core.somaxconn",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.swappiness",
)
#: Compiled packages, and a module of each to load.
_NATIVE = {"uvloop": "uvloop", "fastcrc": "fastcrc.crc32"}
_MARKS = {Level.OK: "ok    ", Level.ADVICE: "advice", Level.WRONG: "WRONG "}


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> OfflineParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    parser = _Parser(prog="pybroker doctor", description="Check whether this machine is ready for a broker.")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the broker's server.properties")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = command_line().parse_args(argv)
    try:
        found = list(examine(options.file))
    except (OSError, UnicodeDecodeError) as error:
        print(f"pybroker doctor: {options.file}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 2
    width = max(len(check.name) for check in found)
    for check in found:
        if options.json:
            fields = {"name": check.name, "level": check.level.value, "what": check.what, "advice": check.advice}
            print(json.dumps(fields))
            continue
        print(f"{_MARKS[check.level]}  {check.name:<{width}}  {check.what}")
        if check.advice:
            print(f"{'':{width + 10}}-> {check.advice}")
    return 1 if checks.worst(found) is Level.WRONG else 0


def examine(path: str | None) -> Iterator[Check]:
    """Yield all checks. Raises OSError if the file cannot be read."""
    yield Check("pybroker", Level.OK, f"{_installed('pybroker') or 'not installed'} on {platform.platform()}")
    yield Check("python", Level.OK, f"{platform.python_version()} ({sys.executable})")
    yield from checks.packages({name: _installed(name) for name in _NATIVE}, dict(_broken()))
    yield checks.compiled({"compaction": compaction.IS_COMPILED, "records as Arrow": arrow.IS_COMPILED})
    now_ms = time.time_ns() // 1_000_000
    yield checks.clock(now_ms)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    yield checks.descriptors(1 << 20 if hard == resource.RLIM_INFINITY else hard)
    yield from checks.kernel(dict(_kernel_settings()))
    try:
        config = load(path, environ=os.environ, to_serve=True)
    except ConfigError as error:
        for problem in error.problems:
            yield Check("configuration", Level.WRONG, str(problem), "pybroker config explain shows the allowed values")
        return
    for line in config.warnings:
        yield Check("configuration", Level.ADVICE, line)
    if not config.warnings:
        yield Check("configuration", Level.OK, "no problems")
    is_usable = True
    for directory in config.log_dirs:
        found = list(checks.disk(_disk(directory)))
        is_usable = is_usable and checks.worst(found) is not Level.WRONG
        yield from found
        with suppress(OSError):  # already reported, or the directory does not exist yet
            yield checks.log_times(directory, newest_times(directory), now_ms)
    if is_usable:
        yield from _contents(config)
    yield from _addresses(config)
    if config.get_bool("remote.log.storage.system.enable"):
        from tools.storage_check import remote_storage  # most configurations have none

        yield from remote_storage(config)
        if not config.is_controller:
            from tools.local_segments_check import local_segments

            yield from local_segments(config)
    if config.is_member:
        from config.membership import controller_addresses  # most configurations have none

        for host, port in controller_addresses(config.values):
            yield checks.controller(host, port)


def _contents(config: BrokerConfig) -> Iterator[Check]:
    """Yield why the broker would refuse its log directories at a start, such as data that it would hide."""
    directories = [path.rstrip("/") for path in config.log_dirs]
    metadata = config.metadata_log_dir.rstrip("/")
    try:
        inspect(LOCAL, directories, metadata, config.node_id, config.get_str("pybroker.cluster.id"))
    except DirectoryRefused as refused:
        yield Check(f"data in {refused.path}", Level.WRONG, refused.reason)


def _addresses(config: BrokerConfig) -> Iterator[Check]:
    opened = {each.name: each for each in config.listeners}
    for fields in config.advertised_listeners:
        listener = opened.get(fields.name)
        if listener is None:
            continue
        others_come_in = is_wildcard(listener.host)
        if not (fields.port or listener.port):
            yield Check(f"advertised {fields.name}", Level.OK, "any free port")
        else:
            yield checks.address(fields.name, fields.host, fields.port or listener.port, others_come_in)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _broken() -> Iterator[tuple[str, str]]:
    """Yield installed packages that cannot be loaded, with Python's message."""
    for name, module in _NATIVE.items():
        try:
            import_module(module)
        except ImportError as error:
            yield name, str(error)


def _kernel_settings() -> Iterator[tuple[str, int]]:
    for name in _KERNEL:
        try:
            yield name, int(Path("/proc/sys", *name.split(".")).read_text())
        except (OSError, ValueError):
            continue


def _disk(directory: str) -> Disk:
    path = Path(directory).absolute()
    nearest = next(each for each in (path, *path.parents) if each.exists())
    space = os.statvfs(nearest)
    return Disk(
        str(path),
        exists=path.exists(),
        writable=nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
        file_system=_file_system(nearest),
        total_bytes=space.f_blocks * space.f_frsize,
        free_bytes=space.f_bavail * space.f_frsize,
        free_inodes=space.f_favail if space.f_files else None,
    )


def _file_system(path: Path) -> str:
    """Return the kind of the file system that is mounted there, from the kernel's table of mounts."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    kinds = [line.partition(" - ")[2].split()[0] for line in lines if line.split()[2] == wanted]
    return kinds[-1] if kinds else "unknown"


if __name__ == "__main__":
    end(main)
