"""A share group that begins in remote storage acquires its records, then those of the local log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.tiering.reading.reader import RemoteReader
from remote.errors import Unreachable
from tests.support.share_broker import SETTINGS, ShareBroker, ShareMemberClient
from tests.support.tiered_broker import Threads, Tiering, WatchedLayout, tiered_config


class TieredShareBroker(Tiering, ShareBroker):
    """A broker of share groups with a tier."""

    layout: WatchedLayout
    remote_reads: RemoteReader
    threads: Threads


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TieredShareBroker]:
    """Offsets 0 to 17 are remote, 18 to 20 local."""
    made = TieredShareBroker(tmp_path, SETTINGS)
    made.give_tier(tmp_path)
    [partition] = made.create("t")
    partition.log.config = tiered_config(segment_bytes=200)
    for _ in range(7):
        made.fill(3)
        made.clock.advance(60_000)
    made.tier(partition)
    made.share_partitions._start_offsets._remote_reads = made.remote_reads
    assert partition.log.local_start_offset == 18
    yield made
    made.close()


@pytest.fixture
def member(broker: TieredShareBroker) -> ShareMemberClient:
    client = broker.member()
    client.configure(share_auto_offset_reset="earliest")
    return client.enter()


def test_records_of_both_tiers_are_acquired_once(broker: TieredShareBroker, member: ShareMemberClient) -> None:
    found: list[tuple[int, int, int]] = []
    for _ in range(20):
        found += member.acquire(wait_ms=0)
    assert [offset for first, last, count in found for offset in range(first, last + 1)] == list(range(21))
    assert {count for *_, count in found} == {1}


def test_a_failure_is_an_unknown_error(broker: TieredShareBroker, member: ShareMemberClient) -> None:
    broker.layout.failure = Unreachable("key", "no route")
    assert "UNKNOWN_SERVER_ERROR" in member.share_fetch(wait_ms=0)
    broker.layout.failure = None
    assert member.acquire(wait_ms=0)[0][0] == 0


def test_a_fetch_waits_for_remote_storage(broker: TieredShareBroker, member: ShareMemberClient) -> None:
    broker.threads.held = True
    assert member.acquire(wait_ms=0) == []
    broker.threads.release()
    broker.settle()
    assert member.acquire(wait_ms=0)[0][0] == 0


def test_a_group_that_begins_at_a_time_finds_it_in_both_tiers(broker: TieredShareBroker) -> None:
    """Seven batches of three records, a minute apart; the last one is local."""
    for minutes, offset in ((7, 0), (5, 6), (1, 18)):
        client = broker.member(f"m{minutes}")
        client.group = f"g{minutes}"
        client.configure(share_auto_offset_reset=f"by_duration:PT{minutes}M")
        client.enter()
        broker.clock.advance(-3000)  # joining has taken so long
        assert client.acquire(wait_ms=0)[0][0] == offset
