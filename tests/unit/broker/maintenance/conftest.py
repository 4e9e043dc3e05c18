"""Fixtures that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cleaner_stage import CleanerStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[CleanerStage]:
    """Return a cleaner with its logs, unless a file has a stage of its own."""
    made = CleanerStage(tmp_path)
    yield made
    made.cleaner.close()
    made.logs.close(made.clock.now_ms())
