"""The limit of replication, and what a fetcher does while it is exceeded."""

from __future__ import annotations

import pytest

from protocol.messages.fetch import FETCH
from protocol.schema import Struct
from replication.following import Fetcher
from replication.partition_key import PartitionKey
from replication.read_replica import ReadableReplica, nearest
from replication.throttle import UNLIMITED, ReplicationThrottle
from tests.unit.replication.doubles import MemoryLog

KEY, OTHER = (b"topic-of-16-byte", 0), (b"topic-of-16-byte", 1)


def limited(rate: int = 1000) -> ReplicationThrottle:
    throttle = ReplicationThrottle(1)
    throttle.set_rate(rate)
    return throttle


def test_no_more_than_the_rate_passes() -> None:
    """Each take of 700 bytes follows as soon as it may, for 10 s."""
    throttle, now_ms, passed = limited(), 0, 0
    while now_ms < 10_000:
        assert throttle.wait_ms(now_ms) == 0
        throttle.record(700, now_ms)
        passed += 700
        now_ms += throttle.wait_ms(now_ms)
    assert passed == pytest.approx(10_000, rel=0.1)


def test_nothing_is_saved_in_a_pause() -> None:
    """One window's bytes may pass at once, and the next take waits for all of them."""
    throttle = limited()
    throttle.record(1000, 60_000)
    assert throttle.wait_ms(60_000) == 0
    throttle.record(1000, 60_000)
    assert throttle.wait_ms(60_000) == 2000
    throttle.record(1000, 62_000)
    assert throttle.wait_ms(62_000) == 1000


def test_windows_count_for_a_time() -> None:
    """By default for 11 s. A take far above the limit is forgotten then, as in Apache Kafka."""
    throttle = limited(1)
    throttle.record(1000, 0)
    throttle.record(3, 5000)
    assert throttle.wait_ms(5000) == 6000
    assert throttle.wait_ms(11_000) == 0
    throttle.record(10, 11_000)
    assert throttle.wait_ms(11_000) == 10_000


def test_a_higher_rate_shortens_the_wait() -> None:
    throttle = limited()
    throttle.record(2000, 0)
    throttle.set_rate(1500)
    assert throttle.wait_ms(0) == 1334
    throttle.set_rate(2000)
    assert throttle.wait_ms(0) == 0
    throttle.set_rate(UNLIMITED)
    throttle.record(2000, 0)
    throttle.set_rate(10)
    assert throttle.wait_ms(0) == 0  # what passed without a limit does not count


@pytest.mark.parametrize(
    ("replicas", "applies"),
    [
        ("*", [True, True]),
        ("0:1,1:2", [True, False]),
        ("0:2", [False, False]),
        ("", [False, False]),
        ("*,0:1,x", [True, False]),
        ("0:x,1:1", [False, True]),
    ],
)
def test_the_replicas_of_a_topic(replicas: str, applies: list[bool]) -> None:
    throttle = limited()
    throttle.set_replicas("t", replicas)
    assert [throttle.applies("t", index) for index in range(2)] == applies
    assert throttle.is_active is any(applies)
    assert not throttle.applies("u", 0)


def test_the_nearest_replica() -> None:
    leader, far = ReadableReplica(1, "a", 9, 0), ReadableReplica(4, "c", 9, 0)
    behind, late, up = ReadableReplica(2, "b", 8, 0), ReadableReplica(3, "b", 9, 5), ReadableReplica(5, "b", 9, 1)
    assert nearest("b", leader, [far, behind, late, up]) is up
    assert nearest("b", leader, [far]) is leader
    assert nearest("a", leader, [behind, leader._replace(broker_id=6)]) is leader
    assert nearest("", leader, [behind]) is leader


class OneThrottle:
    """A throttle of one partition, as a fetcher knows it."""

    is_active = True

    def __init__(self, throttle: ReplicationThrottle) -> None:
        self._throttle = throttle
        self.record, self.wait_ms = throttle.record, throttle.wait_ms

    def applies(self, key: PartitionKey) -> bool:
        return key == KEY


def asked(request: Struct | None) -> list[int]:
    return sorted(each.partition for topic in (request.topics if request else ()) for each in topic.partitions)


def test_a_fetcher_leaves_throttled_partitions_out_while_it_must() -> None:
    throttle = limited()
    fetcher = Fetcher(1, 1, throttle=OneThrottle(throttle))
    for key in (KEY, OTHER):
        fetcher.add(key, MemoryLog(), 0)
    throttle.record(1500, 0)
    assert asked(fetcher.next_request(0)) == [1]
    assert fetcher.wakes_at_ms() == fetcher.limits.backoff_ms
    assert asked(fetcher.next_request(1500)) == [0, 1]


def test_a_fetcher_asks_for_nothing_if_all_is_withheld() -> None:
    throttle = limited()
    fetcher = Fetcher(1, 1, throttle=OneThrottle(throttle))
    fetcher.add(KEY, MemoryLog(), 0)
    throttle.record(1500, 0)
    assert fetcher.next_request(0) is None
    assert asked(fetcher.next_request(1600)) == [0]


class Owing:
    """A throttle that owes more than it can pay for days, until the configuration ends it."""

    is_active = True

    def applies(self, key: tuple[bytes, int]) -> bool:
        return True

    def record(self, size_bytes: int, now_ms: int) -> None:
        raise AssertionError("nothing was fetched")

    def wait_ms(self, now_ms: int) -> int:
        return 10**9


def test_a_follower_soon_notices_that_a_throttle_has_ended() -> None:
    throttle = Owing()
    fetcher = Fetcher(2, 202, throttle=throttle)
    fetcher.add((bytes(15) + b"\x01", 0), MemoryLog(), 5)
    assert fetcher.next_request(0) is None
    assert fetcher.wakes_at_ms() == fetcher.limits.backoff_ms
    throttle.is_active = False
    assert fetcher.next_request(fetcher.limits.backoff_ms) is not None


def test_a_leader_is_not_asked_for_nothing() -> None:
    """A session without partitions would be answered at once, again and again: it is left alone until the wait ends."""
    throttle = limited()
    fetcher = Fetcher(1, 1, throttle=OneThrottle(throttle))
    fetcher.add(KEY, MemoryLog(), 0)
    assert asked(fetcher.next_request(0)) == [0]
    fetcher.answered(FETCH.response(session_id=5, responses=[]), 0)
    throttle.record(1500, 0)
    forgets = fetcher.next_request(0)
    assert forgets is not None
    assert [(each.topic_id, each.partitions) for each in forgets.forgotten_topics_data] == [(KEY[0], [KEY[1]])]
    fetcher.answered(FETCH.response(session_id=5, responses=[]), 0)
    assert fetcher.next_request(0) is None
    assert asked(fetcher.next_request(1500)) == [0]
