"""Snapshots of share-partitions without recent writes: a few in each turn of the loop."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.share.state import ShareKey, StateBatch
from metadata.topic_names import SHARE_GROUP_STATE
from tests.support.share_broker import SETTINGS, ShareBroker

COUNT = 60
INTERVAL = "share.coordinator.cold.partition.snapshot.interval.ms"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ShareBroker]:
    made = ShareBroker(
        tmp_path, {**SETTINGS, INTERVAL: "10000", "share.coordinator.state.topic.prune.interval.ms": "600000"}
    )
    made.create(SHARE_GROUP_STATE)
    for partition in range(COUNT):
        write(made, partition, begin=True)
    yield made
    made.close()


def write(broker: ShareBroker, partition: int, *, begin: bool = False) -> None:
    share = ShareKey("g", b"t" * 16, partition)
    if begin:
        broker.share_states.initialize(share, 1, 0)
    broker.share_states.write(
        share,
        state_epoch=1,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=-1,
        batches=(StateBatch(0, 4, 2, 1),),
    )


@pytest.fixture
def written(broker: ShareBroker, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the time of each snapshot in ms, and its partition."""
    found: list[tuple[int, int]] = []
    run = broker.share_states.run_records

    def noted(log, records):
        found.extend((broker.clock.monotonic_ms(), record.share.partition) for record in records)
        return run(log, records)

    monkeypatch.setattr(broker.share_states, "run_records", noted)
    return found


def test_turn_writes_a_few_snapshots(broker: ShareBroker, written: list[tuple[int, int]]) -> None:
    for _ in range(200):
        broker.advance(100)

    assert [partition for _, partition in written] == list(range(COUNT))
    assert max(Counter(time for time, _ in written).values()) <= 20
    broker.advance(10_000)
    assert len(written) == COUNT


def test_stopping_broker_writes_no_snapshots(broker: ShareBroker, written: list[tuple[int, int]]) -> None:
    while not written:
        broker.advance(1)
    count = len(written)
    broker.share_states.stop()
    broker.advance(1_000)
    assert len(written) == count < COUNT
