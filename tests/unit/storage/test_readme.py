"""storage/README.md names each file."""

import re
from pathlib import Path

ROOM = Path(__file__).parents[3] / "storage"


def test_table_has_each_file_in_the_row_of_its_package() -> None:
    """It names no file that does not exist."""
    rows = re.findall(r"^\| `(.+) \|$", (ROOM / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = set()
    for row in rows:
        package = row.partition("`")[0] if row.partition("`")[0].endswith("/") else ""
        named |= {package + name for name in re.findall(r"(\w+\.py)`", row)}
    there = {str(path.relative_to(ROOM)) for path in ROOM.rglob("*.py") if path.name != "__init__.py"}
    assert named == there
