"""Fixtures of the fault tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import OurBroker, RunningBroker, marked_broker
from tests.support.history import History
from tests.support.history_clients import HistoryClient


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """Run our broker, or that of the marker `broker`, unless a file has a broker of its own."""
    with marked_broker(request, tmp_path / "broker", OurBroker) as running:
        yield running


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """The history of one test, in its folder after the test. Clients that a failed test left behind are stopped."""
    written = History(tmp_path / "history.jsonl")
    yield written
    left = [each for each in threading.enumerate() if isinstance(each, HistoryClient)]
    for client in left:
        client.give_up()
    for client in left:
        client.join(20)
    written.close()
