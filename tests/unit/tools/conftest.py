"""A data directory that tools read without a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.dump_log import LOGS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory after a clean stop of Apache Kafka."""
    return Path(
        shutil.copytree(LOGS / "v4.3.1-clean-shutdown", tmp_path / "data", ignore=shutil.ignore_patterns("*.txt"))
    )
