"""A member's fast path of followers' fetches answers as the handler does, and the leader learns the same from it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.fast_paths import with_fast_paths
from broker.replicas.partition import OfflineLog
from broker.replication.follower_fetch import FollowerFetchAttempt
from broker.requests.dispatcher import Waiting
from broker.requests.served_api import ServedApi, discover
from protocol.error_codes import ErrorCode
from protocol.headers import encode_request_header
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.schema import Struct
from replication.throttle import UNLIMITED
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID
from tests.support.offered import dispatcher_for
from tests.support.producing import batch
from tests.unit.broker.replication.follower_client import MANY, ManyPartitions

VERSION = 18
PARTITIONS = 4
FOLLOWER = 2
WAIT_MS = 500


class Leader(ManyPartitions):
    """A leader that serves frames, with the fast path of a member or without one."""

    def __init__(self, directory: Path, *, is_fast: bool) -> None:
        super().__init__(directory, PARTITIONS, LogConfig(segment_bytes=100_000, file_delete_delay_ms=0))
        reads: Any = SimpleNamespace(throttle=self.throttle, brokers=self, wake=self.purgatory.check_soon)
        served: dict[int, ServedApi] = dict(discover())
        if is_fast:
            served = with_fast_paths(served, lambda: reads)
        self.dispatcher = dispatcher_for(self, served)
        self.connection: Any = SimpleNamespace(client_host="127.0.0.1", principal="User:broker")
        self.answers: list[bytes] = []
        self.waiting: list[Waiting] = []

    def serve(self, request: Struct) -> None:
        """Serve a request. Its answer is appended to `answers`, perhaps later."""
        head = encode_request_header(FETCH, VERSION, 7, "broker-2-fetcher-0")
        self._take(self.dispatcher.dispatch(self.connection, memoryview(head + FETCH.request.encode(VERSION, request))))

    def _take(self, answer: Any) -> None:
        if isinstance(answer, Waiting):
            self.waiting.append(answer)
        else:
            self.answers.append(_whole(answer))

    def settle(self) -> None:
        super().settle()
        self._finish()

    def advance(self, milliseconds: int) -> None:
        super().advance(milliseconds)
        self._finish()

    def _finish(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if each.deferred.done:
                self._take(self.dispatcher.finish(self.connection, each))
            else:
                self.waiting.append(each)

    def known(self) -> object:
        """Return what the leader knows of its follower."""
        [session] = self.fetch_sessions._sessions.values() or [None]
        due = None if session is None else session.of_follower
        return (
            None if session is None or due is None else (session.epoch, list(due.due), due.resting, due.fetched_ms),
            [
                [
                    (each.log_end_offset, each.log_start_offset, each.broker_epoch, each.caught_up_ms, each.rests)
                    for each in led.leader.followers.values()
                ]
                for led in self.led
            ],
            [(led.leader.high_watermark, led.isr) for led in self.led],
            self.proposed,
        )

    def counted(self) -> object:
        """Return the bytes for followers and for clients, by partition."""
        return [(led.counts.bytes_out, led.find_log() and led.log.fetched_bytes) for led in self.led]


def _whole(answer: Any) -> bytes:
    chunks = [answer] if isinstance(answer, bytes) else answer
    return b"".join(chunk.read() if isinstance(chunk, FetchSlice) else bytes(chunk) for chunk in chunks)


class Follower:
    """Follower 2, which sends the same requests to all leaders, and compares their answers."""

    def __init__(self, *leaders: Leader) -> None:
        self.leaders = leaders
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        self.moved = set(self.offsets)
        self.session_id = self.session_epoch = 0
        self.broker_epoch, self.leader_epoch = 20, 4
        self.seen = 0
        self.counts = True

    def fetch(self, wait_ms: int = WAIT_MS, **fields: Any) -> None:
        """Send the next fetch, which names the partitions that have moved."""
        last_epochs = fields.pop("last_epochs", {})
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=self.offsets[index],
                last_fetched_epoch=last_epochs.get(index, -1),
                current_leader_epoch=self.leader_epoch,
                log_start_offset=self.starts[index],
                partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
            )
            for index in sorted(self.moved)
        ]
        values: dict[str, Any] = {
            "replica_state": ReplicaState(replica_id=FOLLOWER, replica_epoch=self.broker_epoch),
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 10 << 20,
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": [FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
        }
        request = FETCH.request(**{**values, **fields})
        self.moved = set()
        self.do(lambda leader: leader.serve(request))

    def do(self, step: Callable[[Leader], object]) -> None:
        """Let the same happen at both leaders; take over what they answer."""
        for each in self.leaders:
            step(each)
            each.settle()
        self.compare()

    def compare(self) -> None:
        first, *others = self.leaders
        for each in others:
            assert each.answers == first.answers
            assert each.known() == first.known()
            assert not self.counts or each.counted() == first.counted()
        for frame in first.answers[self.seen :]:
            self._take(FETCH.response.decode(VERSION, frame, 9)[0])
        self.seen = len(first.answers)

    def _take(self, response: Struct) -> None:
        if response.error_code:
            self.begin_again()
            return
        self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        for topic in response.responses:
            for data in topic.partitions:
                if data.records and not data.error_code:
                    self.offsets[data.partition_index] = self.leaders[0].led[data.partition_index].log.log_end_offset
                    self.moved.add(data.partition_index)

    def begin_again(self) -> None:
        self.session_epoch, self.moved = 0, set(self.offsets)

    @property
    def waits(self) -> bool:
        return bool(self.leaders[0].waiting)

    def settle(self) -> None:
        for _ in range(6):
            self.fetch(0)


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr("broker.replicas.fetch_session.randrange", lambda low, high: 5)
    leaders = Leader(tmp_path / "fast", is_fast=True), Leader(tmp_path / "slow", is_fast=False)
    yield Follower(*leaders)
    for each in leaders:
        each.close()


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


def append(*indexes: int, size: int = 10) -> Callable[[Leader], None]:
    def step(leader: Leader) -> None:
        for index in indexes:
            if leader.led[index].open_log is not None:
                leader.led[index].append(batch(value=bytes(size)), leader.clock.now_ms())

    return step


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


def lead_again(leader: Leader) -> None:
    for each in leader.led:
        each.lead_again(MANY._replace(leader_epoch=each.leader_epoch + 1, partition_epoch=each.leader_epoch + 10))


def register_again(leader: Leader) -> None:
    leader.epochs[FOLLOWER] += 1
    append(1)(leader)


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


# -- random histories ------------------------------------------------------------------------------------------------


class History:
    """Random steps, by a seed."""

    def __init__(self, follower: Follower, seed: int) -> None:
        self.follower = follower
        self.choose = random.Random(seed)
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (10, self.append),
            (12, self.fetch),
            (4, self.pass_time),
            (1, self.fetch_little),
            (1, self.delete),
            (1, self.forget),
            (1, self.lead_again),
            (1, self.change_isr),
            (1, self.register_again),
            (1, self.throttle),
            (1, self.misplace),
            (1, self.begin_again),
        ]

    def step(self) -> None:
        weights = [weight for weight, _ in self.steps]
        self.choose.choices([each for _, each in self.steps], weights)[0]()

    def append(self) -> None:
        indexes = self.choose.sample(range(PARTITIONS), self.choose.randint(1, 3))
        self.follower.do(append(*indexes, size=self.choose.choice([10, 10, 2000, 20_000])))

    def fetch(self, **fields: Any) -> None:
        if not self.follower.waits:
            self.follower.fetch(self.choose.choice([0, WAIT_MS, WAIT_MS]), **fields)

    def fetch_little(self) -> None:
        self.fetch(max_bytes=self.choose.choice([0, 1, 3000]), min_bytes=self.choose.choice([0, 1, 2000]))

    def pass_time(self) -> None:
        milliseconds = self.choose.choice([1, 100, WAIT_MS, 40_000])
        self.follower.do(lambda leader: leader.advance(milliseconds))

    def delete(self) -> None:
        index = self.choose.randrange(PARTITIONS)

        def step(leader: Leader) -> None:
            leader.led[index].delete_records(-1)
            leader.led[index].log_start_raised()

        self.follower.do(step)
        self.follower.starts[index] = self.follower.leaders[0].led[index].log_start_offset
        self.follower.moved.add(index)

    def forget(self) -> None:
        index = self.choose.randrange(PARTITIONS)
        if not self.follower.waits and self.follower.session_epoch:
            self.follower.moved.discard(index)
            self.fetch(forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[index])])
            self.follower.moved.add(index)

    def lead_again(self) -> None:
        self.follower.do(lead_again)
        if self.choose.random() < 0.7:
            self.follower.leader_epoch = self.follower.leaders[0].led[0].leader_epoch
            self.follower.moved = set(range(PARTITIONS))

    def change_isr(self) -> None:
        isr = self.choose.choice([(1,), (1, FOLLOWER)])

        def step(leader: Leader) -> None:
            for each in leader.led:
                at = each.leader.isr.partition_epoch + 1
                each.change(MANY._replace(leader_epoch=each.leader_epoch, isr=isr, partition_epoch=at))

        self.follower.do(step)

    def register_again(self) -> None:
        self.follower.do(register_again)
        if self.choose.random() < 0.7:
            self.follower.broker_epoch = self.follower.leaders[0].epochs[FOLLOWER]

    def throttle(self) -> None:
        rate = self.choose.choice([1, UNLIMITED, UNLIMITED])

        def step(leader: Leader) -> None:
            leader.throttle.set_rate(rate)
            leader.throttle.set_replicas("t", "*")

        self.follower.do(step)

    def misplace(self) -> None:
        """Name an offset or a last epoch that is wrong, or right."""
        index = self.choose.randrange(PARTITIONS)
        if self.follower.waits:
            return
        offset = self.follower.offsets[index]
        self.follower.offsets[index] = max(offset + self.choose.choice([-1, 0, 50]), 0)
        self.follower.moved.add(index)
        self.fetch(last_epochs={index: self.choose.choice([-1, 2, 4, 5, 90])})
        self.follower.do(lambda leader: leader.advance(WAIT_MS))
        self.follower.offsets[index] = offset
        self.follower.moved.add(index)

    def begin_again(self) -> None:
        if not self.follower.waits:
            self.follower.begin_again()


@pytest.mark.parametrize("seed", range(30))
def test_random_histories(follower: Follower, seed: int) -> None:
    history = History(follower, seed)
    for _ in range(80):
        history.step()
