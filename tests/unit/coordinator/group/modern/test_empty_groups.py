"""Groups of the modern protocols that become empty: their targets move to the group's epoch, as in Apache Kafka 4.4."""

from __future__ import annotations

from coordinator.group.cluster import ConsumerGroupConfig
from protocol.error_codes import ErrorCode
from tests.support.consumer_groups import ConsumerHarness, Topics, assigned
from tests.support.share_groups import ShareHarness
from tests.support.streams_groups import StreamsHarness

SESSION_MS = 45_000

Harness = ConsumerHarness | ShareHarness | StreamsHarness


def epochs(h: Harness) -> tuple[int, int, int]:
    """Return the epochs of the group and of its targets, and the time of the targets."""
    return h.group.epoch, h.group.target_epoch, h.group.target_timestamp_ms


def test_consumer_group_that_becomes_empty() -> None:
    h = ConsumerHarness()
    h.enter_consumer("a")
    h.enter_consumer("b")
    h.settle(["a", "b"])
    assert epochs(h)[:2] == (3, 3)
    before = len(h.log)
    h.beat("a", -1)
    assert h.written_types(before) == [8, 7, 5, 3]
    assert epochs(h)[:2] == (4, 3)
    before = len(h.log)
    h.beat("b", -1)
    assert h.written_types(before) == [8, 7, 5, 3, 6]
    assert epochs(h) == epochs(h.reloaded()) == (5, 5, 0)


def test_expressions_are_removed_first() -> None:
    h = ConsumerHarness()
    h.enter_consumer("a", [], subscribed_topic_regex="t.*")
    h.advance(0)
    before = len(h.log)
    h.beat("a", -1)
    assert h.written_types(before) == [8, 7, 5, 16, 3, 6]


def test_static_member_that_leaves_for_a_session_stays() -> None:
    """The group becomes empty when the session ends."""
    h = ConsumerHarness()
    h.enter_consumer("a", instance_id="one")
    before = len(h.log)
    h.beat("a", -2, instance_id="one")
    assert h.written_types(before) == [8]
    h.advance(SESSION_MS)
    assert h.written_types(before) == [8, 8, 7, 5, 3, 6]
    assert epochs(h) == (3, 3, 0)


def test_members_that_an_administrator_removes_together() -> None:
    h = ConsumerHarness()
    for name in ("a", "b", "c"):
        h.enter_consumer(name, instance_id=name)
    before = len(h.log)
    assert h.leave(("", "a"), ("", "b")) == [ErrorCode.NONE] * 2
    assert h.written_types(before) == [8, 7, 5, 8, 7, 5, 3]
    h.enter_consumer("d", instance_id="d")
    before = len(h.log)
    assert h.leave(("", "c"), ("", "d")) == [ErrorCode.NONE] * 2
    assert h.written_types(before) == [8, 7, 5, 8, 7, 5, 3, 6]
    assert h.group.epoch == h.group.target_epoch


def test_next_member_does_not_wait_for_the_interval() -> None:
    """The targets of an empty group have no time, so a consumer that restarts gets its partitions at once."""
    h = ConsumerHarness(topics=Topics({"t": 1}))
    h.topics.config = ConsumerGroupConfig(assignment_interval_ms=60_000)
    h.enter_consumer("a")
    h.beat("a", -1)
    assert assigned(h.enter_consumer("b")) == {"t": [0]}


def test_share_group_that_becomes_empty() -> None:
    h = ShareHarness()
    h.beat("a", 0, ["t"])
    h.beat("b", 0, ["t"])
    before = len(h.log)
    h.beat("a", -1)
    assert h.written_types(before) == [14, 13, 10, 11]
    before = len(h.log)
    h.tick_ms += SESSION_MS
    h.expire()
    assert h.written_types(before) == [14, 13, 10, 11, 12]
    assert epochs(h) == epochs(h.reloaded()) == (5, 5, 0)


def test_streams_group_that_becomes_empty() -> None:
    h = StreamsHarness()
    h.enter_streams("a")
    h.enter_streams("b")
    before = len(h.log)
    h.beat("a", -1)
    assert h.written_types(before) == [22, 21, 19, 17]
    before = len(h.log)
    h.advance(SESSION_MS)
    assert h.written_types(before) == [22, 21, 19, 17, 20]
    epoch = h.group.epoch
    assert epochs(h) == epochs(h.reloaded()) == (epoch, epoch, 0)
