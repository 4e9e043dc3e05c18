"""The packages that are installed by hash are those that are tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def pinned(file: str) -> dict[str, str]:
    """Return the versions by name."""
    found = _PINNED.findall((ROOT / file).read_text(encoding="utf-8"))
    return {name.lower().replace("_", "-"): version for name, version in found}


def test_locked_versions_are_the_tested_ones() -> None:
    locked, constraints = pinned("requirements.lock"), pinned("constraints.txt")
    assert locked == {name: constraints[name] for name in locked}


def test_each_dependency_has_hashes() -> None:
    """The lock file has every dependency of the base install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    assert needed <= pinned("requirements.lock").keys()
    entries = re.split(r"^(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries[1:])
