"""Packages that are installed here as wheels again: what an installer finds without an index or a network.

An installed package has all that its wheel had, and a list of it (RECORD); scripts are made anew by the installer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

from packaging.requirements import Requirement

#: What an installer has written beside, of its own.
_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def make_wheelhouse(folder: Path, requirements: Iterable[str]) -> None:
    """Make wheels of these packages and of all that they need. PackageNotFoundError: one is not installed here."""
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
    """As a wheel is called: with each tag that it has."""
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
