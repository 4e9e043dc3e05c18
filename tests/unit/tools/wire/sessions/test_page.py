"""docs/reference/wire.md is up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.wire.sessions.differences import IGNORED

PAGE = (Path(__file__).parents[5] / "docs/reference/wire.md").read_text()


@pytest.mark.parametrize("what", IGNORED)
def test_page_lists_the_ignored_fields(what: str) -> None:
    (line,) = re.findall(rf"^\| {what} \| (.*) \|$", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", line)) == sorted(IGNORED[what])
