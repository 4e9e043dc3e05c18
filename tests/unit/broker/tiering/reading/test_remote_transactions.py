"""Aborted transactions among remote records (KIP-98): from indexes of this and later segments, remote and local."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.tiering.reading import aborted as aborted_module
from protocol.records.control import build_end_transaction_marker
from remote.errors import Unreachable
from storage.append.header_validation import AppendOrigin
from tests.support.fetching import append, fetch_one, read_offsets
from tests.support.tiered_broker import TieredBroker, tiered_config
from tiered.segment import RemoteSegment


def transactional(broker: TieredBroker, producer_id: int, sequence: int = 0) -> None:
    append(broker, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def end(broker: TieredBroker, producer_id: int, *, commit: bool) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    now_ms = broker.clock.now_ms()
    marker = build_end_transaction_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=now_ms)
    partition.append(marker, now_ms, AppendOrigin.COORDINATOR)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TieredBroker]:
    """7 is aborted in its segment, 8 in the next one, 9 in the one after that, and 6 is committed."""
    made = TieredBroker(tmp_path)
    made.topic(config=tiered_config())
    transactional(made, 7)  # 0 to 2
    end(made, 7, commit=False)  # 3
    transactional(made, 8)  # 4 to 6
    transactional(made, 9)  # 7 to 9
    append(made)  # 10 to 12, in the second segment
    end(made, 8, commit=False)  # 13
    transactional(made, 6)  # 14 to 16
    end(made, 6, commit=True)  # 17
    append(made)  # 18 to 20, in the third one
    append(made)  # 21 to 23
    end(made, 9, commit=False)  # 24
    append(made)  # 25 to 27
    append(made)  # 28 to 30
    append(made)  # 31 to 33
    yield made
    made.close()


def aborted(broker: TieredBroker, offset: int, **fields: int) -> list[tuple[int, int]]:
    answer = fetch_one(broker, offset, isolation_level=1, **fields)
    assert answer.error_code == 0
    assert read_offsets(answer)
    return [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]


@pytest.mark.parametrize("local", [1, 2, 3])
def test_aborts_in_later_segments_of_both_tiers(broker: TieredBroker, local: int) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    everything = {offset: aborted(broker, offset) for offset in range(34)}
    broker.tier(partition, keep=local)
    assert partition.log.local_start_offset > 9
    assert {offset: aborted(broker, offset) for offset in range(34)} == everything
    assert everything[0] == [(7, 0), (8, 4), (9, 7)]


def test_an_abort_that_was_local_has_become_remote(broker: TieredBroker) -> None:
    """The run was read while the index of the abort was local; when it is remote, it is read there."""
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.tier(partition, keep=3)
    assert aborted(broker, 4) == [(8, 4), (9, 7)]
    broker.tier(partition, keep=1)
    assert aborted(broker, 4) == [(8, 4), (9, 7)]


def test_readers_of_all_records_read_no_index(broker: TieredBroker) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.tier(partition)
    assert fetch_one(broker, 0).aborted_transactions is None
    assert not [path for path in (broker.remote_directory.parent / "data0").rglob("*.txnindex") if "cache" in str(path)]


def test_an_index_that_cannot_be_read_is_an_error(broker: TieredBroker) -> None:
    """Without it the consumer would get aborted records."""
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.tier(partition)
    assert aborted(broker, 0)
    broker.reader.indexes.limit(1)
    broker.layout.failure = Unreachable("key", "no route")
    assert aborted(broker, 0), "it is known of a run that was read before"
    broker.layout.failure = None
    fetch_one(broker, 10)
    broker.layout.index_failure = Unreachable("key", "no route")
    answer = fetch_one(broker, 10, isolation_level=1)
    assert answer.error_code == -1
    broker.layout.index_failure = None
    assert aborted(broker, 10) == [(8, 4), (9, 7)]


def test_segments_are_looked_at_once(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may have very many segments: a few in each turn of the loop, and not again for each read."""
    monkeypatch.setattr(aborted_module, "_SEGMENTS", 1)
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.tier(partition)
    looks = 0
    segments_from = broker.reader.segments_from

    def counted(*wanted: Any) -> Iterator[RemoteSegment]:
        nonlocal looks
        for each in segments_from(*wanted):
            looks += 1
            yield each

    monkeypatch.setattr(broker.reader, "segments_from", counted)
    assert aborted(broker, 0, max_bytes=1)[0] == (7, 0)
    first = looks
    assert aborted(broker, 10, max_bytes=1) == [(8, 4), (9, 7)]
    assert looks <= first + 2, "the run is read, and the next one"


def test_another_leader_epoch_may_have_other_segments(broker: TieredBroker) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.tier(partition, keep=3)
    assert aborted(broker, 0)[0] == (7, 0)
    remote_log = broker.remote_logs.get(partition.topic_id, 0)
    indexed = remote_log.indexed
    assert indexed is not None
    assert indexed.next(0) is not None
    partition.lead(partition.leader_epoch + 1)
    append(broker)
    broker.tier(partition)
    assert aborted(broker, 0)[0] == (7, 0)
    assert aborted(broker, 10) == [(8, 4), (9, 7)]
