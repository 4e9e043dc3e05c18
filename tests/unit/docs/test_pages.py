"""What the pages point at is there: links, and paths of the project between backticks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "*/README.md", "tests/data/*.md") for path in ROOT.glob(pattern)
)
ROOMS = "protocol|storage|metadata|coordinator|broker|offline|console|pybroker|tests|bench|docs|config|docker|examples"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    """Relative links from where the page lies; paths from the root."""
    text = page.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    paths = re.findall(rf"`((?:{ROOMS})/[\w./-]+)`", text)

    assert [target for target in links if not (page.parent / target).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_list_of_decisions_has_each() -> None:
    """A page that nothing leads to is not read."""
    listed = re.findall(r"^\| \[([\w-]+\.md)\]", (ROOT / "docs/decisions/README.md").read_text(), re.MULTILINE)

    assert sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md")) == sorted([*listed, "README.md"])
