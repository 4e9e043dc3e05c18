"""Pages that are written from tables in the code: write them, or check that they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_pages(pages: Mapping[Path, str], module: str, argv: Sequence[str]) -> int:
    """Write the pages that differ from their files; with `--check` in `argv` only report them. Return the exit code.

    Args:
        pages: the texts by path, relative to the project's root.
        module: the module that writes them (`python -m MODULE`).
    """
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    is_check = "--check" in argv
    for path in stale:
        if is_check:
            print(f"{path} is out of date: run python -m {module}", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path])
            print(f"wrote {path}")
    return 1 if stale and is_check else 0
