"""The available memory: the machine's, or the limit of a control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.process.machine_memory import memory_bytes

MACHINES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
UNLIMITED = str((1 << 63) - 4096)


@pytest.mark.parametrize(
    ("process", "groups", "expected"),
    [
        pytest.param("0::/\n", {"memory.max": "1000000\n"}, 1_000_000, id="a container"),
        pytest.param("0::/outside/docker-1\n", {"memory.max": "1000000\n"}, 1_000_000, id="with the path outside"),
        pytest.param("0::/\n", {}, MACHINES, id="the root, which has no limit"),
        pytest.param(
            "0::/system.slice/one.service\n",
            {"system.slice/memory.max": "2000000\n", "system.slice/one.service/memory.max": "max\n"},
            2_000_000,
            id="a slice's",
        ),
        pytest.param(
            "7:cpu,cpuacct:/a\n3:memory:/a\n",
            {"memory/memory.limit_in_bytes": UNLIMITED, "memory/a/memory.limit_in_bytes": "3000000"},
            3_000_000,
            id="version 1",
        ),
        pytest.param("0::/\n", {"memory.max": UNLIMITED}, MACHINES, id="more than there is"),
    ],
)
def test_smallest_limit_counts(tmp_path: Path, process: str, groups: dict[str, str], expected: int) -> None:
    (tmp_path / "cgroup").write_text(process)
    for name, text in groups.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    assert memory_bytes(tmp_path / "cgroup", tmp_path / "groups") == expected


def test_memory_without_control_groups_is_the_machines(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "none", tmp_path) == MACHINES
