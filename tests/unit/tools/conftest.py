"""A data directory to look at without a broker."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dump_log import LOGS


@pytest.fixture(autouse=True)
def broken_pipes_raise() -> Iterator[None]:
    """In the tests that follow, too: a tool that runs in this process lets them end it, as suits one of its own."""
    before = signal.getsignal(signal.SIGPIPE)
    yield
    signal.signal(signal.SIGPIPE, before)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory after a clean stop of Apache Kafka."""
    return Path(
        shutil.copytree(LOGS / "v4.3.1-clean-shutdown", tmp_path / "data", ignore=shutil.ignore_patterns("*.txt"))
    )
