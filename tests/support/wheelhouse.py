"""Wheels of the packages that are installed here, for installers without an index or a network.

An installed package has all files of its wheel, and a list of them (RECORD); the installer creates scripts again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

from packaging.requirements import Requirement

#: files that an installer adds
_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def make_wheelhouse(folder: Path, requirements: Iterable[str]) -> None:
    """Make wheels of these packages and their dependencies. PackageNotFoundError: one is not installed here."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [Requirement(each) for each in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        if (wanted.name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((wanted.name, frozenset(wanted.extras)))
        found = distribution(wanted.name)
        path = folder / _name(found)
        if not path.exists():
            _pack(found, path)
        for each in map(Requirement, found.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(each)


def _name(found: Distribution) -> str:
    """Return the name of a wheel, with all its tags."""
    tags = [line.split("-") for line in re.findall(r"^Tag: (\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)]
    parts = [".".join(dict.fromkeys(tag[place] for tag in tags)) for place in range(3)]
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"])
    return "-".join((name, found.version, *parts)) + ".whl"


def _pack(found: Distribution, path: Path) -> None:
    own = next(each for each in found.files or () if each.name == "WHEEL").parent
    names = [
        str(each)
        for each in found.files or ()
        if not (each.parts[0] == ".." or "__pycache__" in each.parts)
        and not (each.parent == own and each.name in _OF_INSTALLERS)
    ]
    with ZipFile(path, "w", ZIP_STORED) as wheel:
        for name in names:
            wheel.write(str(found.locate_file(name)), name)
        wheel.writestr(f"{own}/RECORD", "".join(f'"{name}",,\n' for name in [*names, f"{own}/RECORD"]))
