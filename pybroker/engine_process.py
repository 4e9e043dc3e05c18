"""A process of the engine: `python -I -m pybroker.engine_process MODULE [ARGUMENT ...]`, as `python -m MODULE`.

The engine's packages have plain names (`storage`, `protocol`), which other installed packages may have too. So only
`pybroker` is installed at the top level: setup.py puts the engine's packages into the folder `pybroker/engine`, and a
process of the engine calls `enter` before it imports any of them. In the source tree, and in an editable installation,
they are at the root of the tree. A process of a user never calls `enter`, and never imports them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

#: The engine's packages, by the names under which its code imports them. setup.py installs these.
PACKAGES = frozenset(
    {
        "broker",
        "client",
        "config",
        "console",
        "controller",
        "coordinator",
        "metadata",
        "protocol",
        "replication",
        "tiered",
        "remote",
        "runtime",
        "security",
        "storage",
        "tools",
    }
)


def command(module: str, arguments: Iterable[str] = ()) -> list[str]:
    """Return the command line of a process that runs a module of the engine.

    Isolated mode (`-I`) keeps the current folder, PYTHONPATH and the user's site-packages off its path.
    """
    return [sys.executable, "-I", "-m", "pybroker.engine_process", module, *arguments]


def directory() -> str:
    """Return the folder that holds the engine's packages: of an installation, or of the source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "engine")
    return installed if os.path.isdir(installed) else os.path.dirname(here)


def enter() -> None:
    """Make this process, which has to be isolated, one of the engine: its packages are found before all installed ones.

    Packages of these names that something has loaded already, such as a .pth file of the environment, are unloaded.
    """
    engine = directory()
    # after the standard library, which has no such names: otherwise Python would search here for each of its modules
    place = next((number for number, entry in enumerate(sys.path, 1) if entry.endswith("lib-dynload")), 0)
    if sys.path[place : place + 1] != [engine]:
        sys.path.insert(place, engine)
    foreign = {name for name in PACKAGES & sys.modules.keys() if not _is_below(engine, sys.modules[name].__file__)}
    if foreign:
        for name in [each for each in sys.modules if each.partition(".")[0] in foreign]:
            del sys.modules[name]


def _is_below(folder: str, file: str | None) -> bool:
    return file is not None and os.path.abspath(file).startswith(folder + os.sep)


if __name__ == "__main__":
    from runpy import run_module  # loaded already, by -m

    if len(sys.argv) < 2:
        sys.exit(__doc__)
    enter()
    run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
