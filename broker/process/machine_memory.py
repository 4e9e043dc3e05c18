"""Find how much memory this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def memory_bytes(groups_of_process: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the machine's memory, or the limit of its control groups (a container, a service) if that is lower."""
    machines = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machines, *_limits(groups_of_process, groups)])


def _limits(groups_of_process: Path, groups: Path) -> Iterator[int]:
    """Yield the limits of control groups, of version 2 (one hierarchy, no controllers named) or 1."""
    try:
        lines = groups_of_process.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be the host's, and the mounted group its own: so the root is read, too.
        group = root / path.lstrip("/")
        for each in (group, *group.parents):
            if each.is_relative_to(root):
                try:
                    yield int((each / name).read_text())
                except (OSError, ValueError):  # there is no such file, or it contains "max"
                    continue
