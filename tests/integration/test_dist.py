"""What `make dist` builds: the same bytes each time, and all that a broker needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
EPOCH = 1_700_000_001  # zip files count in steps of two seconds


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    loader = SourceFileLoader("dist", str(ROOT / ".ci/dist"))
    spec = spec_from_loader("dist", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_builds_are_the_same_and_start(dist: ModuleType, tmp_path: Path) -> None:
    """Two builds under different masks of modes; a broker of the wheel's files starts, and ends with its input."""
    made = dist.build(EPOCH)
    former = os.umask(0o077)
    try:
        assert dist.build(EPOCH) == made
    finally:
        os.umask(former)
    sdist, wheel = sorted(made, key=lambda name: name.endswith(".whl"))
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)

    with tarfile.open(tmp_path / sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        assert {each.mtime for each in packed.getmembers()} == {EPOCH}
    assert {"pyproject.toml", "setup.py", "LICENSE", "storage/cleaner/walk.pxd"} <= names
    with zipfile.ZipFile(tmp_path / wheel) as packed:
        packed.extractall(tmp_path / "installed")
        top = {name.partition("/")[0] for name in packed.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        *("protocol", "storage", "metadata", "coordinator", "security", "broker", "offline", "console", "pybroker")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", "serve", "--ephemeral", "--print-json", "--until-stdin-ends"],
        cwd=tmp_path / "installed",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"bootstrap_servers"' in done.stdout
