"""A broker with the group coordinator, for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.support.group_broker import GroupBroker


@pytest.fixture
def patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load all groups at the start, however slow the machine is."""
    monkeypatch.setattr("broker.coordinators.runtime.LOAD_AT_START_MS", 60_000)


@pytest.fixture
def broker() -> GroupBroker:
    """Return a broker with the topic "t", unless a file has a broker of its own."""
    broker = GroupBroker()
    broker.controller.add("t")
    return broker
