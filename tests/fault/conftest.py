"""What tests of faults share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.history import History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Of one test; it is in that test's folder when the test is over."""
    written = History(tmp_path / "history.jsonl")
    yield written
    written.close()
