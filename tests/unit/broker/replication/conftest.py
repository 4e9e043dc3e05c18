"""A broker that leads a partition with two followers, and a follower of two leaders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.replication.both_fetch_paths import Follower, Leader
from tests.unit.broker.replication.leading_broker import LeadingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    made = LeadingBroker(tmp_path)
    yield made
    made.close()


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr("broker.replicas.fetch_session.randrange", lambda low, high: 5)
    leaders = Leader(tmp_path / "fast", is_fast=True), Leader(tmp_path / "slow", is_fast=False)
    yield Follower(*leaders)
    for each in leaders:
        each.close()
