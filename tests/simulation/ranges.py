"""Ranges of seeds that were run, in a table of a Markdown page (`--record`). Adjacent ones of a revision are one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEAD = ("| first seed | last seed | revision | controller | failures |", "|---:|---:|---|---|---|")
#: The last cell of a range in which all checks hold.
NO_FAILURES = "none"


class Range(NamedTuple):
    """Seeds from `first` to `last` with the code of a revision. `failures` names the seeds that fail, and why."""

    first: int
    last: int
    revision: str
    controller: str
    failures: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        numbers = f"{self.first:,} | {self.last:,}"
        return f"| {numbers} | {self.revision} | {self.controller} | {'; '.join(self.failures) or NO_FAILURES} |"


def parse(row: str) -> Range:
    """Return the range of a row."""
    first, last, revision, controller, failures = (each.strip() for each in row.strip().strip("|").split("|"))
    found = () if failures == NO_FAILURES else tuple(failures.split("; "))
    return Range(int(first.replace(",", "")), int(last.replace(",", "")), revision, controller, found)


def merged(ranges: list[Range]) -> list[Range]:
    """Return the ranges in order, those that are adjacent and alike as one."""
    found: list[Range] = []
    for each in sorted(ranges):
        last = found[-1] if found else None
        if last is not None and (last.last + 1, *last[2:4]) == (each.first, *each[2:4]):
            found[-1] = last._replace(last=each.last, failures=last.failures + each.failures)
        else:
            found.append(each)
    return found


def add(page: str, new: Range) -> str:
    """Return a page with one more range in its table. Raises ValueError if it has no table of ranges."""
    lines = page.splitlines()
    first = lines.index(HEAD[0]) + len(HEAD)
    end = next((index for index in range(first, len(lines)) if not lines[index].startswith("|")), len(lines))
    rows = [each.row for each in merged([*map(parse, lines[first:end]), new])]
    return "\n".join([*lines[:first], *rows, *lines[end:]]) + "\n"


def record(page: Path, new: Range) -> None:
    """Add a range to the table of a page."""
    page.write_text(add(page.read_text(), new))


def revision() -> str:
    """Return the revision of the code. Raises SystemExit if files outside of docs/ differ from it."""
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs"], cwd=ROOT, check=False).returncode:
        raise SystemExit("The code differs from its revision. Commit the changes before you record ranges of seeds.")
    found = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    return found.stdout.decode().strip()
