"""docs/reference/wire.md says what is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.wire.sessions.differences import IGNORED

PAGE = (Path(__file__).parents[5] / "docs/reference/wire.md").read_text()


@pytest.mark.parametrize("what", IGNORED)
def test_fields_that_are_not_compared(what: str) -> None:
    """All of them, and no others."""
    (line,) = re.findall(rf"^\| {what} \| (.*) \|$", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", line)) == sorted(IGNORED[what])
