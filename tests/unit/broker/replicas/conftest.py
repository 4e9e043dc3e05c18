"""A broker with logs in a temporary directory, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data_broker import DataBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    """Run a broker whose pool does nothing until the test releases it, unless a file has a broker of its own."""
    made = DataBroker(tmp_path)
    made.workers.held = True
    yield made
    made.close()
