"""All workers but the owner, as the owner sees them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.broker import StartInterrupted
from broker.cores.crew import Crew


def test_a_start_that_was_interrupted_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the owner opened its own logs: no process is started."""
    monkeypatch.setattr("broker.cores.member.Member.start", lambda self: pytest.fail("is started"))
    broker: Any = SimpleNamespace()
    crew = Crew(broker, [[], []])
    crew.interrupt()
    with pytest.raises(StartInterrupted):
        asyncio.run(crew.start(set()))
