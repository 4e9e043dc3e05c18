"""What is installed by its hash is what is tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def pinned(file: str) -> dict[str, str]:
    """Versions by name."""
    found = _PINNED.findall((ROOT / file).read_text(encoding="utf-8"))
    return {name.lower().replace("_", "-"): version for name, version in found}


def test_versions_are_those_that_are_tested() -> None:
    locked, constraints = pinned("requirements.lock"), pinned("constraints.txt")
    assert locked == {name: constraints[name] for name in locked}


def test_each_dependency_has_hashes() -> None:
    """Those of the base install all stand there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    assert needed <= pinned("requirements.lock").keys()
    entries = re.split(r"^(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries[1:])
