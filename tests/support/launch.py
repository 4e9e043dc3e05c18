"""Starts that must fail, and what they leave behind: a broker's process run to its end, a snapshot of a directory."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pybroker import engine_process

# linux/prctl.h, linux/capability.h
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended by itself."""

    exit_code: int
    stdout: str
    stderr: str


def broker_command(*arguments: str) -> list[str]:
    """Return the command line of a broker's process."""
    return engine_process.command("broker.main", arguments)


def run_broker(
    directory: Path,
    properties: Mapping[str, str] | str,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    timeout_s: float = 90,
) -> Ended:
    """Start a broker with `properties` (a mapping, or the text) in `directory`/server.properties; wait for its end.

    `before` is called in the child process, before it becomes a broker.
    """
    if not isinstance(properties, str):
        properties = "".join(f"{key}={value}\n" for key, value in properties.items())
    directory.mkdir(exist_ok=True)
    (directory / "server.properties").write_text(properties)
    done = subprocess.run(
        broker_command("server.properties", *arguments),
        cwd=directory,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        preexec_fn=before,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def obey_permissions() -> None:
    """Drop root's exemption from permission bits; for `before`."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be dropped")


def picture(directory: Path) -> dict[str, tuple[int, int, int, int]]:
    """Return inode, mode, size and modification time of everything in `directory`, itself included."""
    found = {}
    for path in (directory, *directory.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(directory))] = (
            status.st_ino,
            status.st_mode,
            status.st_size,
            status.st_mtime_ns,
        )
    return found
