"""A broker with logs in a temporary directory, for the handlers of the data plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data_broker import DataBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    yield made
    made.close()
