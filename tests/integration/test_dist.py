"""What `make dist` builds: the same bytes each time, and all that a broker needs."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tarfile
import venv
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
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(tmp_path / wheel) as packed:
        packed.extractall(site)
        top = {name.partition("/")[0] for name in packed.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        *("protocol", "storage", "metadata", "coordinator", "security", "broker", "offline", "console", "pybroker")
    }
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # without what is in editable mode there
    python = str(tmp_path / "venv/bin/python")
    where = subprocess.run([python, "-Ic", "import broker; print(broker.__file__)"], capture_output=True, text=True)
    assert where.stdout.startswith(str(site)), where.stderr
    options = ["--ephemeral", "--print-json", "--until-stdin-ends"]
    done = subprocess.run(
        [python, "-I", "-m", "broker.main", *options], input="", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert '"bootstrap_servers"' in done.stdout
