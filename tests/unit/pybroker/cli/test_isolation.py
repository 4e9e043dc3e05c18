"""Whether a process can become isolated without starting the interpreter again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
SCRIPT = "import sys, json; {}; from pybroker.cli.isolation import isolate; print(json.dumps([isolate(), sys.path]))"
FOREIGN = "raise SystemExit('the module of another project was loaded')"


def isolated(folder: Path, *options: str, before: str = "pass", **variables: str) -> tuple[bool, list[str]]:
    """Return whether a process in `folder` could be isolated, and its path then."""
    command = [sys.executable, *options, "-c", SCRIPT.format(before)]
    done = subprocess.run(command, cwd=folder, env=CLEAN | variables, capture_output=True, check=True)
    found, path = json.loads(done.stdout)
    return found, path


def test_path_is_that_of_isolated_mode(tmp_path: Path) -> None:
    """Whatever variables are set."""
    _, expected = isolated(tmp_path, "-I")
    images = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHON_VERSION": "3.13.1"}
    assert isolated(tmp_path, **images) == (True, [each for each in expected if each])
    assert str(tmp_path) not in expected


@pytest.mark.parametrize(
    ("options", "variables", "before"),
    [
        ([], {"PYTHONPATH": "/nowhere"}, "pass"),
        ([], {"PYTHONUTF8": "1"}, "pass"),
        ([], {"PYTHONOPTIMIZE": "1"}, "pass"),
        (["-O"], {}, "pass"),
        (["-X", "dev"], {}, "pass"),
        (["-X", "importtime"], {}, "pass"),
        (["-W", "error"], {}, "pass"),
        ([], {}, "sys.modules['storage'] = sys"),
    ],
)
def test_loaded_modules_need_a_second_start(
    options: list[str], variables: dict[str, str], before: str, tmp_path: Path
) -> None:
    """Then nothing is changed."""
    found, path = isolated(tmp_path, *options, before=before, **variables)
    assert (found, path[0]) == (False, "")


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}], ids=["here", "started-again"])
@pytest.mark.parametrize("command", [["-m", "pybroker"], [str(Path(sys.executable).with_name("pybroker"))]])
def test_modules_of_the_current_directory_are_ignored(
    command: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    """A project may have modules of the same names."""
    for name in ("storage", "protocol", "broker", "uvloop"):
        (tmp_path / f"{name}.py").write_text(FOREIGN)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/__init__.py").write_text(FOREIGN)
    done = subprocess.run(
        [sys.executable, *command, "none.properties"],
        cwd=tmp_path,
        env=CLEAN | variables,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (2, "pybroker: none.properties: No such file or directory\n")
