"""A follower's fetch session at the leader: which partitions a fetch reads, and what it says of the others."""

from __future__ import annotations

from replication.follower_session import FollowerSession
from replication.leading import LeaderState, Proposal

LAG_MS = 30_000
EPOCH = 102


class Cluster(dict[int, int]):
    """The epochs of active brokers."""

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.get(broker_id)


class Led:
    """Partitions that broker 1 leads, each with its log end; broker 2 fetches them in `session`."""

    def __init__(self, count: int = 3) -> None:
        self.now_ms = 0
        self.woken = 0
        self.ends = [10] * count
        cluster = Cluster({1: 101, 2: EPOCH})
        self.states = [
            LeaderState(
                1,
                cluster,
                replicas=(1, 2),
                isr=(1, 2),
                leader_epoch=5,
                partition_epoch=7,
                start_offset=10,
                high_watermark=10,
                min_in_sync_replicas=1,
                max_lag_ms=LAG_MS,
                now_ms=0,
            )
            for _ in range(count)
        ]
        self.session = self.open()

    def open(self) -> FollowerSession[int]:
        """Return a session of all partitions."""
        return FollowerSession(range(len(self.ends)), lambda _: self._wake())

    def _wake(self) -> None:
        self.woken += 1

    def fetch(
        self,
        *named: int,
        forgotten: tuple[int, ...] = (),
        after_ms: int = 0,
        epoch: int = EPOCH,
        counts: bool = True,
        session: FollowerSession[int] | None = None,
    ) -> list[int]:
        """Fetch at the log ends; return which partitions were read."""
        self.now_ms += after_ms
        session = session or self.session
        session.begin_fetch(2, epoch, named, forgotten, self.now_ms, counts=counts)
        read = list(session.due)
        for key in read if counts else ():
            state, end = self.states[key], self.ends[key]
            follower = state.followers[2]
            follower.read_by(session, key)
            state.fetched(2, epoch, end, 0, end, self.now_ms)
            if state.may_rest(follower, epoch, end):
                session.rest(key, follower)
        return read

    def append(self, key: int) -> None:
        self.ends[key] += 1
        self.states[key].wake_followers()
        self.states[key].advance(self.ends[key], self.now_ms)

    def caught_up_ms(self, key: int) -> int:
        return self.states[key].followers[2].caught_up_ms

    def shrinkage(self, key: int, after_ms: int = 0) -> Proposal | None:
        self.now_ms += after_ms
        return self.states[key].shrinkage(self.ends[key], self.now_ms)


# -- what is read ----------------------------------------------------------------------------------------------------


def test_first_fetch_reads_all_and_the_next_nothing() -> None:
    led = Led()
    assert led.fetch() == [0, 1, 2]
    assert led.fetch() == []


def test_changed_partition_is_read_until_it_is_committed() -> None:
    led = Led()
    led.fetch()
    led.append(1)
    assert led.session.due == {1: None}
    assert led.woken == 1
    assert led.fetch(1) == [1], "the fetch at the new end commits it"
    assert led.fetch() == []


def test_named_partition_is_read_once() -> None:
    led = Led()
    led.fetch()
    assert led.fetch(2) == [2]
    assert led.fetch() == []


def test_partition_that_is_added_later_is_read() -> None:
    led = Led()
    led.fetch()
    led.states.append(led.states[0])
    led.ends.append(10)
    assert led.fetch(3) == [3]


def test_forgotten_partition_is_not_read() -> None:
    led = Led()
    led.fetch()
    led.append(0)
    assert led.fetch(forgotten=(0, 1)) == []
    led.append(1)
    assert led.session.due == {}


def test_served_partitions_are_read_last() -> None:
    led = Led()
    led.session.serve_last([0, 2, 7])
    assert list(led.session.due) == [1, 0, 2]


def test_another_epoch_of_the_broker_reads_all() -> None:
    """The leader keeps the epoch by partition, and proposes the ISR with it."""
    led = Led()
    led.fetch()
    led.states[0]._brokers[2] = EPOCH + 5  # type: ignore[index]
    assert led.fetch(epoch=EPOCH + 5) == [0, 1, 2]
    assert [state.followers[2].broker_epoch for state in led.states] == [EPOCH + 5] * 3


def test_fetch_that_does_not_count_reads_all() -> None:
    led = Led()
    led.fetch()
    assert led.fetch(counts=False) == [0, 1, 2]
    assert led.fetch() == [0, 1, 2]


def test_partition_without_its_follower_in_the_isr_does_not_rest() -> None:
    led = Led()
    led.fetch()
    led.states[1].change((1, 2), (1,), 8, led.ends[1], led.now_ms)
    assert led.fetch() == [1]
    assert led.fetch() == [1], "each fetch may propose it for the ISR"


def test_removed_replica_is_read() -> None:
    led = Led()
    led.fetch()
    led.states[1].change((1,), (1,), 8, led.ends[1], led.now_ms)
    assert led.session.due == {1: None}
    assert led.woken == 1


def test_new_session_takes_over_and_the_former_reads_again() -> None:
    led = Led()
    led.fetch()
    later = led.open()
    assert led.fetch(session=later) == [0, 1, 2]
    assert list(led.session.due) == [0, 1, 2]
    assert led.fetch(session=later) == []
    led.append(0)
    assert later.due == {0: None}


# -- caught-up times -------------------------------------------------------------------------------------------------


def test_append_after_a_long_idle_time_keeps_the_isr() -> None:
    led = Led()
    for _ in range(200):
        led.fetch(after_ms=500)
    assert led.now_ms > 3 * LAG_MS
    led.append(0)
    assert led.shrinkage(0) is None
    assert led.caught_up_ms(0) == led.now_ms


def test_stopped_follower_leaves_the_isr_of_an_idle_partition_in_time() -> None:
    led = Led()
    led.fetch()
    led.fetch(after_ms=1000)
    led.append(0)
    assert led.shrinkage(0, after_ms=LAG_MS) is None
    assert led.shrinkage(0, after_ms=1) is not None
    assert led.shrinkage(1) is None, "it has everything of the idle ones, as in Apache Kafka"


def test_partition_takes_its_caught_up_time_out_of_the_session() -> None:
    """From then on fetches of others say nothing of this one."""
    led = Led()
    led.fetch()
    led.fetch(after_ms=1000)
    led.append(0)
    led.session.begin_fetch(2, EPOCH, (), (), led.now_ms + 5000, counts=True)
    assert led.caught_up_ms(0) == 1000
    assert led.caught_up_ms(1) == 6000


def test_fetch_after_an_append_in_between_counts_as_caught_up_then() -> None:
    """The leader had at the last fetch what the follower has now (KIP-16)."""
    led = Led()
    led.fetch()
    led.fetch(after_ms=1000)
    led.append(0)
    led.now_ms += 400
    led.states[0].fetched(2, EPOCH, 10, 0, 11, led.now_ms)
    assert led.caught_up_ms(0) == 1000


def test_forgotten_partition_keeps_its_time() -> None:
    led = Led()
    led.fetch()
    led.fetch(after_ms=1000)
    led.fetch(forgotten=(0,), after_ms=1000)
    assert led.caught_up_ms(0) == 1000
    led.fetch(after_ms=1000)
    assert [led.caught_up_ms(key) for key in range(3)] == [1000, 3000, 3000]


def test_fetch_that_does_not_count_leaves_the_times() -> None:
    led = Led()
    led.fetch()
    led.fetch(after_ms=1000)
    led.fetch(after_ms=1000, counts=False)
    assert [led.caught_up_ms(key) for key in range(3)] == [1000] * 3


def test_removed_session_leaves_the_times() -> None:
    """Nothing tells partitions of an evicted session: it has no more fetches."""
    led = Led()
    led.fetch()
    led.now_ms += LAG_MS + 1
    led.append(0)
    assert led.caught_up_ms(0) == 0
    assert led.shrinkage(0) is not None
