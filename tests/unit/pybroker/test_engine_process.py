"""The location of the engine's packages, and processes that import them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pybroker import engine_process

ROOT = Path(__file__).resolve().parents[3]


def test_every_package_of_the_tree_is_installed() -> None:
    """A room at the root that is not listed would be missing from the wheel."""
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "pybroker", "tests"}
    assert found == engine_process.PACKAGES
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert set(known["importlinter"]["root_packages"]) == {*found, "pybroker"}
    assert found < set(known["mypy"]["packages"])


def test_engine_is_found_in_tree_and_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert engine_process.directory() == str(ROOT)
    monkeypatch.setattr(engine_process, "__file__", str(tmp_path / "engine_process.py"))
    (tmp_path / "engine").mkdir()
    assert engine_process.directory() == str(tmp_path / "engine")


def test_engine_precedes_installed_packages() -> None:
    """The engine follows the standard library. A second call changes nothing."""
    code = "import sys; from pybroker.engine_process import enter; enter(); enter(); print(*sys.path, sep='\\n')"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    path = done.stdout.splitlines()
    assert path.count(str(ROOT)) == 1
    assert path[path.index(str(ROOT)) - 1].endswith("lib-dynload")


def test_module_runs_as_a_program() -> None:
    done = subprocess.run(engine_process.command("tools.random_uuid", ["--help"]), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: pybroker random-uuid")


def test_command_line_without_a_module_is_an_error() -> None:
    command = engine_process.command("tools.random_uuid")[:-1]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "MODULE" in done.stderr
