"""What tests of faults share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.history import History
from tests.support.history_clients import HistoryClient


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Of one test; it is in that test's folder when the test is over. Clients that a failure has left do not go on."""
    written = History(tmp_path / "history.jsonl")
    yield written
    left = [each for each in threading.enumerate() if isinstance(each, HistoryClient)]
    for client in left:
        client.give_up()
    for client in left:
        client.join(20)
    written.close()
