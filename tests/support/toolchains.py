"""Node and Go, where they are: a missing one skips its tests by name on a user's machine, and fails them in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BUILT = ROOT / ".cache" / "conformance"


def require(tool: str) -> str:
    """Return the path of `tool`; skip the test where there is none, or fail it in continuous integration."""
    if found := shutil.which(tool):
        return found
    if os.environ.get("CI"):
        pytest.fail(f"{tool} is not on PATH")
    pytest.skip(f"{tool} is not on PATH")


def node_program(directory: Path, script: str, *, name: str = "") -> list[str]:
    """Return the command that runs `script` of a Node project, with its packages installed as its lock file says."""
    node, npm = require("node"), require("npm")
    project = _BUILT / name / "node"
    lock = (directory / "package-lock.json").read_text()
    stamp = project / "installed"
    if not stamp.exists() or stamp.read_text() != lock:
        project.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(directory / name, project)
        _run([npm, "ci", "--silent"], project)
        stamp.write_text(lock)
    shutil.copy(directory / script, project)
    return [node, str(project / script)]


def go_program(directory: Path, *, name: str = "") -> list[str]:
    """Return the command that runs the Go program in `directory`, built."""
    program = _BUILT / name / directory.name / "program"
    _run([require("go"), "build", "-o", str(program), "."], directory)
    return [str(program)]


def go_tool(package: str, version: str) -> Path:
    """Return the program of a public Go package, which is built once."""
    folder = _BUILT / f"{package.rpartition('/')[2]}-{version}"
    program = folder / package.rpartition("/")[2]
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run([require("go"), "install", f"{package}@{version}"], folder, {"GOBIN": str(folder)})
    return program


def _run(command: list[str], directory: Path, variables: dict[str, str] | None = None) -> None:
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
