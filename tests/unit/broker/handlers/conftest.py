"""A broker with logs in a temporary directory, for the handlers of the data plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data_broker import DataBroker
from tests.support.fetching import append


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    yield made
    made.close()


@pytest.fixture
def filled(broker: DataBroker) -> DataBroker:
    """Partition 0 has five batches of three records, offsets 0 to 14. Partition 1 is empty."""
    broker.topic(partitions=2)
    for _ in range(5):
        append(broker)
    return broker
