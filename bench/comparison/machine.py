"""Describe the machine and the commit that figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from pybroker.pipeline.java import JavaNotFoundError, find_java
from tests.support.java import KAFKA_VERSION

_ROOT = Path(__file__).parents[2]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _java() -> str:
    try:
        return f"Java {find_java().version}"
    except JavaNotFoundError:
        return "no Java"


def commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    git = ["git", "-C", str(_ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "no commit"
    changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True)
    return head.stdout.strip() + (" with changes" if changed.stdout.strip() else "")


def description() -> str:
    """Return one sentence to put above a table."""
    kernel = ".".join(platform.release().split(".")[:2])
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"{os.cpu_count()} cores ({_processor()}), {_memory_gb():.0f} GB of memory, {platform.system()} {kernel}, "
        f"{python}, {_java()}, Apache Kafka {KAFKA_VERSION}; commit {commit()}"
    )
