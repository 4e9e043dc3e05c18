"""A broker that leads a partition with two followers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.replication.leading_broker import LeadingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    made = LeadingBroker(tmp_path)
    yield made
    made.close()
