"""A data directory that tools read without a broker."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dump_log import LOGS


@pytest.fixture(autouse=True)
def broken_pipes_raise() -> Iterator[None]:
    """Restore the handling of SIGPIPE, which tools that run in this process change."""
    before = signal.getsignal(signal.SIGPIPE)
    yield
    signal.signal(signal.SIGPIPE, before)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory after a clean stop of Apache Kafka."""
    return Path(
        shutil.copytree(LOGS / "v4.3.1-clean-shutdown", tmp_path / "data", ignore=shutil.ignore_patterns("*.txt"))
    )
