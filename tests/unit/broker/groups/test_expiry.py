"""How much is looked at in one turn of the loop when offsets expire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.groups import expiry
from broker.groups.expiry import Expiry
from coordinator.group.records import CommittedOffset, OffsetRecord
from protocol.errors import ErrorCode
from tests.support.fake_loop import FakeLoop
from tests.support.group_broker import GroupBroker


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds; each look at the clock takes one millisecond."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(expiry.time, "monotonic", monotonic)
    return now


def test_a_long_walk_takes_many_turns(clock: list[float]) -> None:
    """What a turn has found is written in it."""
    loop = FakeLoop()
    written: list[tuple[str, list[int]]] = []

    def write(found: Any, records: Any) -> ErrorCode:
        written.append((found.partition, list(records)))
        return ErrorCode.NONE

    class Found:
        partition = "p"

    made: Expiry[Any, Any] = Expiry(loop, write, [(Found(), iter([[n] for n in range(20)]))])  # type: ignore[arg-type]
    made.go_on()
    assert 0 < len(written[0][1]) < 10
    turns = 1
    while loop._soon:
        assert sum(len(records) for _, records in written) >= turns
        loop.turn()
        turns += 1
    assert [each for _, records in written for each in records] == list(range(20))
    assert turns > 3


def test_many_records_are_written_in_portions() -> None:
    loop = FakeLoop()
    sizes: list[int] = []

    def write(found: Any, records: Any) -> ErrorCode:
        sizes.append(len(records))
        return ErrorCode.NOT_COORDINATOR

    steps: Iterator[list[int]] = ([0] * 300 for _ in range(10))
    Expiry(loop, write, [(object(), steps)]).go_on()  # type: ignore[arg-type, list-item]
    while loop._soon:
        loop.turn()
    assert sum(sizes) == 3_000
    assert max(sizes) <= expiry.MOST_RECORDS + 300


def test_offsets_and_then_their_groups_go_in_turns(clock: list[float]) -> None:
    broker = GroupBroker({"offsets.retention.minutes": 1})
    [shard, *_] = [each.shard for each in broker.groups.loaded_logs()]
    for number in range(50):
        shard.replay(OffsetRecord(f"g{number}", "t", 0, CommittedOffset(1, 0, "", broker.clock.now_ms())), number)
    broker.clock.advance(60_000)
    broker.groups._expire()
    assert 0 < len(list(shard.offsets.group_ids())) < 50
    broker.advance(0)
    assert len(shard) == len(shard.offsets.group_ids()) == 0


def test_a_shard_that_is_gone_meanwhile_is_left_alone(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    broker = GroupBroker({"offsets.retention.minutes": 1})
    [found, *_] = broker.groups.loaded_logs()
    for number in range(50):
        found.shard.replay(OffsetRecord(f"g{number}", "t", 0, CommittedOffset(1, 0, "", broker.clock.now_ms())), number)
    broker.clock.advance(60_000)
    broker.groups._expire()
    written = len(broker.hosted[found.partition.index].batches)
    told = len(caplog.records)
    broker.groups.partition_lost(found.partition)
    broker.advance(0)
    assert len(broker.hosted[found.partition.index].batches) == written
    assert len(caplog.records) == told
