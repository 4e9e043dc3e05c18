"""kafkajs against the broker: administration, an idempotent producer, a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker
from tests.support.round_trip import check_round_trip
from tests.support.scale import scaled
from tests.support.toolchains import node_program

DIRECTORY = Path(__file__).parent / "node"


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafkajs_round_trip(reference: RunningBroker, name: str, codec: str) -> None:
    """What kafkajs writes it reads back as a member of a group, whose offsets are then committed."""
    check_round_trip(node_program(DIRECTORY, "round_trip.js"), reference.bootstrap, name, scaled(200), codec)
