"""Division of the process's file descriptors."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from broker.process.descriptors import Shares, lack, raise_limit, share_out


@pytest.mark.parametrize(
    ("limit", "shares"),
    [
        (256, Shares(64, 128)),
        (1024, Shares(256, 704)),
        (1 << 20, Shares(512, (1 << 20) - 512 - 64)),
        (64, Shares(16, 16)),
        (40, Shares(16, 4)),
        (10, Shares(16, 1)),
    ],
)
def test_connections_get_the_remaining_descriptors(limit: int, shares: Shares) -> None:
    """Log files and a reserve come first. Each share is at least one."""
    assert share_out(limit) == shares


@pytest.mark.parametrize(
    ("before", "after", "limit"),
    [
        ((1024, 4096), (4096, 4096), 4096),
        ((1024, resource.RLIM_INFINITY), (1 << 20, resource.RLIM_INFINITY), 1 << 20),
        ((1024, 1 << 30), (1 << 20, 1 << 30), 1 << 20),
        ((1 << 21, 1 << 30), (1 << 21, 1 << 30), 1 << 21),
        ((256, 256), (256, 256), 256),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (1 << 20, resource.RLIM_INFINITY), 1 << 20),
    ],
)
def test_soft_limit_is_raised(
    before: tuple[int, int], after: tuple[int, int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the hard limit, or to what suffices."""
    limits = before

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        nonlocal limits
        limits = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert raise_limit() == limit
    assert limits == after


def test_kernel_limit_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """fs.nr_open may be below the hard limit."""

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 30))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_limit() == 1024


def test_enough_descriptors_are_no_problem() -> None:
    assert lack() is None


@pytest.mark.parametrize("limit", [8, 12, 16, 24])
def test_too_few_descriptors_are_one_line_and_code_1(limit: int, tmp_path: Path) -> None:
    """Before any file is touched, and without a traceback."""
    command = [sys.executable, "-m", "broker.main", "--override", f"log.dirs={tmp_path}/logs"]
    started = subprocess.run(
        ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command], capture_output=True, text=True, timeout=60
    )
    assert started.returncode == 1
    last, *others = reversed(started.stderr.splitlines())
    assert last.startswith(f"pybroker: the process may open {limit} files (ulimit -n) and has ")
    assert not [line for line in others if " WARNING " not in line]
    assert not (tmp_path / "logs").exists()
