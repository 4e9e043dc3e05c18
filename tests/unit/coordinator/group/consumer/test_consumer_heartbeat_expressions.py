"""Members that subscribe by regular expressions: what is resolved, when, and for how long."""

from __future__ import annotations

from coordinator.group.shard import TimerKey
from protocol.error_codes import ErrorCode
from tests.support.consumer_groups import ConsumerHarness, assigned, by_name

T = {"t": [0, 1, 2, 3]}


def test_expression_is_resolved_soon_after(h: ConsumerHarness) -> None:
    answer = h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    assert (answer.member_epoch, assigned(answer)) == (1, {})
    assert h.written_types() == [5, 8]
    h.advance(0)
    assert h.written_types(2) == [16, 3]
    assert assigned(h.beat("a", 1, {})) == T


def test_topics_without_describe_access_are_left_out(h: ConsumerHarness) -> None:
    """Until the client has access, and the expressions are resolved again."""
    h.topics.put("t-secret", 1)
    hidden = {"t-secret"}
    h.may_describe = lambda topic: topic not in hidden
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    assert assigned(h.beat("a", 1, {})) == T
    hidden.clear()
    h.topics.put("t-other", 1)
    h.advance(10_001)
    h.beat("a", 2)
    h.advance(0)
    assert assigned(h.beat("a", 2, T)) == {**T, "t-other": [0], "t-secret": [0]}


def test_new_topics_are_found_once_the_pause_is_over(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", 1, {})
    h.topics.put("t2", 1)
    h.advance(10_000)
    h.beat("a", 2)
    h.advance(0)
    assert h.group.epoch == 2
    h.advance(1)
    h.beat("a", 2)
    h.advance(0)
    assert h.group.epoch == 3
    assert assigned(h.beat("a", 2, T)) == {**T, "t2": [0]}


def test_topics_are_resolved_again_after_a_failed_write(h: ConsumerHarness) -> None:
    """The stored hash is that of the topics before, and must not count as that of the new ones."""
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", 1, {})
    h.topics.put("t2", 1)
    h.advance(10_001)
    h.beat("a", 2)
    checked = h.group.checked_version
    h.topics.put("t3", 1)
    h.failure = ErrorCode.NOT_COORDINATOR
    h.advance(0)
    assert h.group.checked_version == checked != h.topics.topics_version
    h.failure = ErrorCode.NONE
    h.beat("a", 2)
    h.advance(0)
    assert h.group.checked_version == h.topics.topics_version
    assert h.group.regexes["t.*"].topics == {"t", "t2", "t3"}


def test_expressions_are_resolved_at_intervals(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    seen = h.group.regexes["t.*"].timestamp_ms
    for _ in range(60):
        h.advance(10_000)
        h.beat("a", h.group.members["a"].epoch)
    assert h.group.regexes["t.*"].timestamp_ms == seen
    h.advance(10_000)
    h.beat("a", h.group.members["a"].epoch)
    h.advance(0)
    assert h.group.regexes["t.*"].timestamp_ms == h.wall_ms
    assert h.group.epoch == 2


def test_a_wall_clock_set_back_delays_no_resolution(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", 1, {})
    h.wall_ms -= 3_600_000
    h.topics.put("t2", 1)
    h.advance(10_001)
    h.beat("a", 2)
    h.advance(0)
    assert assigned(h.beat("a", 2, T)) == {**T, "t2": [0]}


def test_a_wall_clock_set_forward_causes_no_resolution(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", 1, {})
    written = len(h.log)
    h.wall_ms += 3_600_000
    h.advance(10_001)
    h.beat("a", 2)
    h.advance(0)
    assert len(h.log) == written


def test_the_resolution_interval_starts_with_the_process(h: ConsumerHarness) -> None:
    """The monotonic clock does not run while a broker is down, and the wall clock may be wrong."""
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", 1, {})
    h.wall_ms += 3_600_000
    h = h.reloaded()
    h.topics.put("t2", 1)
    for pause_ms, epoch in ((10_000, 2), (1, 3)):
        h.advance(pause_ms)
        h.beat("a", 2)
        h.advance(0)
        assert h.group.epoch == epoch


def test_expression_is_removed_with_its_last_member(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.enter_consumer("b", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.beat("a", -1)
    assert "t.*" in h.group.regexes
    h.beat("b", h.group.members["b"].epoch, topics=["t"], subscribed_topic_regex="")
    assert h.group.regexes == {}
    assert h.group.is_subscribed_to("t")


def test_names_and_expressions_add_up(h: ConsumerHarness) -> None:
    h.topics.put("u", 1)
    h.enter_consumer("a", ["t"], subscribed_topic_regex="u")
    h.advance(0)
    h.settle(["a"])
    assert by_name(h.group.members["a"].assigned) == {**T, "u": [0]}


def test_deadlines_are_removed_with_the_group(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    assert TimerKey("regex", "g") in h.timers
    h.run(lambda effects: h.shard.unload(h.now, effects))
    assert len(h.timers) == 0
