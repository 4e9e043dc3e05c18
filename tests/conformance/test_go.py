"""franz-go against the broker: administration, its default idempotent producer, a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker
from tests.support.moved_records import check_round_trip
from tests.support.scale import scaled
from tests.support.toolchains import go_program

DIRECTORY = Path(__file__).parent / "go"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_franz_go_round_trip(reference: RunningBroker, name: str, codec: str) -> None:
    """franz-go reads its own records back as a member of a group, whose offsets are then committed."""
    check_round_trip(go_program(DIRECTORY), reference.bootstrap, name, scaled(200), codec)
