"""Transactions that cannot end for a while: how often the coordinator retries, and that others are unaffected."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.transaction.ending import LONGEST_RETRY_MS, RETRY_MS
from broker.coordinators.transaction.markers import Marker, PartitionMarkers
from broker.replicas.partition import OfflineLog
from coordinator.partition_for_key import partition_for
from coordinator.transaction.shard import TransactionShard
from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from storage.errors import LogOffline
from tests.support.txn_broker import TxnBroker

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    """x has an open transaction in t-0, y in t-1. Their states are in one partition."""
    made = TxnBroker(tmp_path, {"transaction.state.log.num.partitions": "1"})
    made.create("t", 2)
    for number, (name, place) in enumerate([("x", T0), ("y", T1)]):
        assert made.client.init(name) == f"NONE P{number} 0"
        assert made.client.write(name, (f"P{number}", 0), place, 0, version=12) == "NONE 0"
    yield made
    made.close()


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch, broker: TxnBroker) -> list[int]:
    """Record when a marker was to be written."""
    times: list[int] = []

    write = PartitionMarkers.write

    def note(markers: PartitionMarkers, marker: Marker, topic: str, index: int) -> Any:
        times.append(broker.clock.monotonic_ms())
        return write(markers, marker, topic, index)

    monkeypatch.setattr(PartitionMarkers, "write", note)
    return times


def shard_of(broker: TxnBroker) -> TransactionShard:
    found = broker.transactions.at("x")
    assert not isinstance(found, ErrorCode)
    assert found.partition == partition_for("x", 1)
    return found


def test_rejecting_partition_is_retried_less_and_less(broker: TxnBroker, tries: list[int]):
    broker.partition(*T0).isr = ()
    broker.client.end("x", ("P0", 0), True, 5)
    for _ in range(600):
        broker.advance(100)
    waits = [after - before for before, after in pairwise(tries)]
    assert waits == [200, 400, 800, 1_600, 3_200, 6_400] + [LONGEST_RETRY_MS] * 4
    broker.partition(*T0).isr = broker.partition(*T0).replicas
    broker.advance(LONGEST_RETRY_MS)
    assert broker.client.describe("x").startswith("CompleteCommit")


def test_partition_with_an_unopened_log_gets_marker_later(broker: TxnBroker):
    """After a start, other logs are opened first: see Partition.log."""
    partition = broker.partition(*T0)
    waiting = OfflineLog(*T0, partition.topic_id, partition.log.config, LogOffline("t-0", "is opened soon"))
    opened = partition.log
    partition.set_offline(waiting)
    broker.client.end("x", ("P0", 0), True, 5)
    assert broker.client.describe("x").startswith("PrepareCommit")
    partition.log = opened
    broker.advance(RETRY_MS)
    assert broker.client.describe("x").startswith("CompleteCommit")


def test_waiting_transactions_are_not_examined_for_others(broker: TxnBroker):
    class Watched(dict[str, None]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all of them are looked at")

    broker.partition(*T0).isr = ()
    broker.client.end("x", ("P0", 0), True, 5)
    shard = shard_of(broker)
    shard.prepared = Watched(shard.prepared)
    assert broker.client.end("y", ("P1", 0), True, 5) == "NONE P1 1"
    assert broker.client.describe("y").startswith("CompleteCommit")
    assert shard.prepared.keys() == {"x"}


def test_transactions_end_in_the_order_of_their_decisions(broker: TxnBroker, monkeypatch: pytest.MonkeyPatch):
    begun: list[str] = []
    end = broker.transactions._end
    monkeypatch.setattr(
        broker.transactions, "_end", lambda found, each: (begun.append(each.transactional_id), end(found, each))
    )
    broker.clock.advance(60_001)
    broker.transactions._abort_timed_out()
    broker.settle()
    assert begun == ["x", "y"]
    assert not shard_of(broker).prepared


def test_denied_coordinator_keeps_retrying_and_logs(broker: TxnBroker, caplog: pytest.LogCaptureFixture):
    """Its transaction is open in the partition, and readers would wait for ever if it gave up."""
    producer_id = broker.client.producer_id("P0")
    state = broker.partition(*T0).log.producer_state
    state.producers[producer_id].coordinator_epoch = 5
    broker.client.end("x", ("P0", 0), True, 5)
    broker.advance(RETRY_MS + 2 * RETRY_MS)
    assert broker.client.describe("x").startswith("PrepareCommit")
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors == ["A later coordinator than that of x has written to t-0: no marker"]
    state.producers[producer_id].coordinator_epoch = 0
    broker.advance(4 * RETRY_MS)
    assert broker.client.describe("x").startswith("CompleteCommit")
    assert broker.client.committed_values("t") == [b"v"]


def test_marker_is_written_soon_after_its_groups_load(
    broker: TxnBroker, tries: list[int], monkeypatch: pytest.MonkeyPatch
):
    """It does not wait for the retry delay, which has become long."""
    client, groups = broker.client, broker.groups
    assert client.commit_offset("x", ("P0", 0), "g", T0, 5, version=5) == "NONE"
    index = groups.index_of("g")
    assert index is not None
    with monkeypatch.context() as loading:
        loading.setattr(groups, "at_partition", lambda _: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        client.end("x", ("P0", 0), True, 5)
        broker.advance(30_000)
        count = len(tries)
    groups.at_partition(1 - index)
    groups._begin(groups._logs[1 - index])
    assert len(tries) == count
    groups._begin(groups._logs[index])
    broker.settle()
    assert client.describe("x").startswith("CompleteCommit")
    assert client.committed_offset("g", T0) == "NONE 5"
    broker.advance(2 * LONGEST_RETRY_MS)
    assert len(tries) == count + 1


def test_failing_marker_does_not_block_others(
    broker: TxnBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Any exception counts, and is retried."""

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(PartitionMarkers, "write", fail)
        broker.client.end("x", ("P0", 0), True, 5)
        broker.advance(RETRY_MS)
    assert "Writing a marker of x into t-0 failed" in caplog.text
    broker.advance(LONGEST_RETRY_MS)
    assert broker.client.describe("x").startswith("CompleteCommit")


def test_marker_is_written_once_its_partition_is_ready(tmp_path: Path):
    """A leader may be away for half a minute, so the retry delay has become long."""
    broker = TxnBroker(tmp_path, {"transaction.state.log.num.partitions": "1"})
    theirs, away = 1, True

    class Markers:
        def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
            is_away = away and (topic, index) == ("t", theirs)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_away else broker.markers.write(marker, topic, index)

    broker.transactions._markers = Markers()
    try:
        broker.controller.create_topics([NewTopic("t", 2, 1)])
        broker.settle()
        assert broker.client.init("x") == "NONE P0 0"
        assert broker.client.add("x", ("P0", 0), ("t", theirs)) == f"t-{theirs} NONE"
        assert broker.client.end("x", ("P0", 0), True) == "NONE"
        broker.advance(30_000)
        away = False
        broker.transactions.retry_markers(lambda place: place != ("t", theirs))
        broker.settle()
        assert broker.client.describe("x").startswith("PrepareCommit")
        broker.transactions.retry_markers(lambda place: place == ("t", theirs))
        broker.settle()
        assert broker.client.describe("x").startswith("CompleteCommit")
    finally:
        broker.close()
