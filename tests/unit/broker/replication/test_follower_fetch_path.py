"""A member's fast path of followers' fetches answers as the handler does, and the leader learns the same from it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replicas.partition import OfflineLog
from broker.replication.follower_fetch import FollowerFetchAttempt
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import TOPIC_ID
from tests.unit.broker.replication.both_fetch_paths import (
    VERSION,
    WAIT_MS,
    Follower,
    Leader,
    append,
    lead_again,
    register_again,
)
from tests.unit.broker.replication.follower_client import MANY


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The attempts of the leaders' handlers so far."""
    found: list[bool] = []
    begin = FollowerFetchAttempt.__init__

    def counted(self: FollowerFetchAttempt, *arguments: Any, **named: Any) -> None:
        found.append(True)
        begin(self, *arguments, **named)

    monkeypatch.setattr(FollowerFetchAttempt, "__init__", counted)
    return found


# -- the fast path serves what is plain ------------------------------------------------------------------------------


def test_fetches_of_a_session_need_no_handler(follower: Follower, attempts: list[bool]) -> None:
    alone = Follower(follower.leaders[0])
    alone.fetch(0)  # it opens the session
    alone.fetch(0)  # the handler makes it a follower's
    del attempts[:]
    for indexes in ((1,), (0, 1, 2), (3,)):
        alone.fetch()
        alone.do(append(*indexes))
        assert not alone.waits
    assert not attempts


@pytest.mark.parametrize("size", [10, 5000, 30_000, 70_000])
@pytest.mark.parametrize("count", [1, 3])
def test_records_come_at_once_or_with_the_append(follower: Follower, size: int, count: int) -> None:
    follower.settle()
    follower.do(append(*range(count), size=size))
    follower.fetch()
    assert not follower.waits
    follower.fetch()
    assert follower.waits
    follower.do(append(*range(count), size=size))
    assert not follower.waits


def test_a_fetch_that_finds_nothing_is_answered_at_its_deadline(follower: Follower) -> None:
    follower.settle()
    follower.fetch()
    follower.do(lambda leader: leader.advance(WAIT_MS))
    assert not follower.waits


# -- what is not plain -----------------------------------------------------------------------------------------------


def resign(leader: Leader) -> None:
    leader.partitions.give_up(leader.led[2])
    leader.led[2].leave(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    leader.led[2].leader.wake_followers()


def fail(leader: Leader) -> None:
    log = leader.led[1].log
    leader.led[1].set_offline(OfflineLog("t", 1, TOPIC_ID, log.config, LogOffline(log.path, "broken")))


def throttle(leader: Leader) -> None:
    leader.keep(1)
    for each in leader.led[1:]:
        each.change(MANY._replace(isr=(1,), partition_epoch=30))
    leader.throttle.set_rate(1)
    leader.throttle.set_replicas("t", "*")
    append(1)(leader)


@pytest.mark.parametrize("change", [lead_again, register_again, resign, fail, throttle, append(0)])
@pytest.mark.parametrize("waits", [True, False])
def test_changes_are_reported_as_by_the_handler(
    follower: Follower, change: Callable[[Leader], None], waits: bool
) -> None:
    follower.settle()
    if waits:
        follower.fetch()
        assert follower.waits
    follower.do(change)
    if not waits:
        follower.fetch()
    follower.do(lambda leader: leader.advance(WAIT_MS))
    assert not follower.waits
    for _ in range(3):
        follower.fetch(0)


def test_another_request_of_the_session_ends_one_that_waits(follower: Follower) -> None:
    follower.settle()
    follower.counts = False  # the handler counts what both requests have read
    follower.fetch()
    follower.session_epoch += 1
    follower.fetch()
    follower.do(append(1))
    follower.do(lambda leader: leader.advance(WAIT_MS))
    assert not follower.waits


def test_a_lost_connection_ends_the_wait(follower: Follower) -> None:
    follower.settle()
    follower.fetch()
    for each in follower.leaders:
        [waiting] = each.waiting
        waiting.deferred.cancel()
        each.waiting.clear()
        assert not len(each.purgatory)


def test_records_outside_of_the_page_cache_are_read_first(
    follower: Follower, attempts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.settle()
    follower.fetch()
    monkeypatch.setattr(FetchSlice, "is_cold", lambda self, now_ms: True)
    del attempts[:]
    follower.do(append(1, size=20_000))
    assert not follower.waits
    follower.do(append(1, size=20_000))
    follower.fetch()
    assert not follower.waits
    assert len(attempts) == 3  # two of the fast path, which leaves both fetches to it, and one of the other leader
    assert follower.offsets[1] == 2


def test_other_clients_are_refused(follower: Follower, attempts: list[bool]) -> None:
    allowed = True
    guard = SimpleNamespace(
        asking=lambda operation, kind: lambda connection, name: allowed,
        replica_reader=lambda ctx: lambda topic: allowed,
    )
    for each in follower.leaders:
        each.guard = guard  # type: ignore[assignment]
        each.fetch_services = each.fetch_services._replace(guard=guard)
    follower.settle()
    del attempts[:]
    follower.fetch(0)
    assert len(attempts) == 1  # of the leader without a fast path
    allowed = False
    follower.fetch(0)
    follower.fetch(0)
    [topic] = FETCH.response.decode(VERSION, follower.leaders[0].answers[-1], 9)[0].responses
    assert {each.error_code for each in topic.partitions} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
