"""A topic of 30 records in ten batches, three in each segment; the last segment is local."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fetching import append
from tests.support.tiered_broker import TieredBroker, tiered_config


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TieredBroker]:
    """Offsets 0 to 26 are remote, in three segments of 1173 bytes; 27 to 29 are local."""
    made = TieredBroker(tmp_path)
    partition = made.topic(config=tiered_config())
    for _ in range(10):
        append(made)
        made.clock.advance(1000)
    made.tier(partition)
    yield made
    made.close()
