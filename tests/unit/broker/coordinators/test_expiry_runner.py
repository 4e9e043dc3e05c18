"""Expiry of offsets and transactional ids: how much one turn of the loop examines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinators import expiry_runner as expiry
from broker.coordinators.expiry_runner import Expiry
from coordinator.group.records import CommittedOffset, OffsetRecord
from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import Transaction
from tests.support.fake_loop import FakeLoop
from tests.support.group_broker import GroupBroker
from tests.support.txn_broker import TxnBroker


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock in seconds; each reading takes one millisecond."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(expiry, "time", SimpleNamespace(monotonic=monotonic))
    return now


def test_long_walk_takes_many_turns(clock: list[float]) -> None:
    """The expired entries of a turn are written in it."""
    loop = FakeLoop()
    written: list[tuple[str, list[int]]] = []

    def write(found: Any, records: Any) -> None:
        written.append((found.partition, list(records)))

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

    def write(found: Any, records: Any) -> None:
        sizes.append(len(records))

    steps: Iterator[list[int]] = ([0] * 300 for _ in range(10))
    Expiry(loop, write, [(object(), steps)]).go_on()  # type: ignore[arg-type, list-item]
    while loop._soon:
        loop.turn()
    assert sum(sizes) == 3_000
    assert max(sizes) <= expiry.MOST_RECORDS + 300


def test_offsets_then_groups_expire_in_turns(clock: list[float]) -> None:
    broker = GroupBroker({"offsets.retention.minutes": 1})
    [shard, *_] = [each.shard for each in broker.groups.loaded_logs()]
    for number in range(50):
        shard.replay(OffsetRecord(f"g{number}", "t", 0, CommittedOffset(1, 0, "", broker.clock.now_ms())), number)
    broker.clock.advance(60_000)
    broker.groups._expire()
    assert 0 < len(list(shard.offsets.group_ids())) < 50
    broker.advance(0)
    assert len(shard) == len(shard.offsets.group_ids()) == 0


def test_transactional_ids_expire_in_turns(clock: list[float], tmp_path: Path) -> None:
    """One that is used again meanwhile stays."""
    broker = TxnBroker(tmp_path, {"transaction.state.log.num.partitions": "1"})
    broker.client.init("made with the topic")
    [found] = broker.transactions.loaded_logs()
    now_ms = broker.clock.now_ms()
    for number in range(50):
        idle = Transaction(f"x{number}", number, 60_000, now_ms, 0, TransactionState.EMPTY)
        found.shard.replay(TransactionRecord(idle.transactional_id, idle), number)
    broker.clock.advance(604_800_000)
    broker.transactions._remove_expired()
    left = dict(found.shard.transactions)
    assert 40 < len(left) < 50
    assert broker.client.init("x49").startswith("NONE")
    broker.settle()
    assert list(found.shard.transactions) == ["x49"]
    broker.close()


def test_shard_unloaded_meanwhile_is_skipped(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    broker = GroupBroker({"offsets.retention.minutes": 1})
    [found, *_] = broker.groups.loaded_logs()
    for number in range(50):
        found.shard.replay(OffsetRecord(f"g{number}", "t", 0, CommittedOffset(1, 0, "", broker.clock.now_ms())), number)
    broker.clock.advance(60_000)
    broker.groups._expire()
    written = len(broker.hosted[found.partition.index].batches)
    logged = len(caplog.records)
    broker.groups.partition_lost(found.partition)
    broker.advance(0)
    assert len(broker.hosted[found.partition.index].batches) == written
    assert len(caplog.records) == logged
