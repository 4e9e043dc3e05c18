"""Copy a data directory in milliseconds: closed segments become hard links."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_SEGMENT = ".log"


def fork_directory(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`, the data directory of a broker that shut down cleanly.

    Closed segments become hard links, as nothing changes these files: the cleaner replaces them by new ones, and
    recovery begins after them. All other files are copied.
    """
    for folder, _, names in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True)
        closed = sorted(name for name in names if name.endswith(_SEGMENT))[:-1]
        for name in names:
            if name in closed:
                os.link(Path(folder, name), here / name)
            elif name != ".lock":
                shutil.copy2(Path(folder, name), here / name)
