"""The copier: partitions that the target does not acknowledge, and long gaps, do not hold up the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition

from pybroker.cli.client.session import Place, Session
from pybroker.mirror import copying, filling, partition
from pybroker.mirror.copying import Copier
from pybroker.mirror.partition import BeginAgain

SLOW, GOOD = ("slow", 0), ("good", 0)


class Message:
    """A record, or an error of its partition."""

    def __init__(self, place: Place, offset: int, error: KafkaError | None = None) -> None:
        self._place, self._offset, self._error = place, offset, error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None


class Stage:
    """A consumer and a producer whose records and acknowledgements the test chooses, with its own clock."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.messages: list[Message] = []
        self.assigned: dict[Place, int] = {}
        self.paused: set[Place] = set()
        self.sent: list[Place] = []
        self.marked: list[Place] = []
        self.ends: dict[Place, int] = {}
        self.moved_s = self.now_s
        self.is_broken = False
        self.acknowledges = False
        clock = SimpleNamespace(monotonic=lambda: self.now_s, time=lambda: self.now_s, sleep=self.sleep)
        for module in (copying, filling):
            patch.setattr(module, "time", clock)
        patch.setattr(partition, "time", SimpleNamespace(monotonic=clock.monotonic))
        patch.setattr(copying, "Delivery", lambda *_, **__: self)
        session = SimpleNamespace(consumer=lambda _: self, check=lambda: None, timeout_s=5.0, ends=lambda _: self.ends)
        sessions = cast("Session", session), cast("Session", session)
        self.copier = Copier(*sessions, cast("Any", lambda: self), filler_records=False)
        self.add(SLOW, GOOD)

    def add(self, *places: Place) -> None:
        """Add partitions whose brokers know the producer."""
        self.copier.add(dict.fromkeys(places, 0), dict.fromkeys(places, 0))
        for place in places:
            self.copier._places[place].is_known = True

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    # the consumer
    def consume(self, _: int, __: float) -> list[Message]:
        found, self.messages = self.messages, []
        return [each for each in found if (each.topic(), each.partition()) in self.assigned]

    def incremental_assign(self, parts: list[TopicPartition]) -> None:
        self.assigned.update({(each.topic, each.partition): each.offset for each in parts})

    def incremental_unassign(self, parts: list[TopicPartition]) -> None:
        for each in parts:
            del self.assigned[each.topic, each.partition]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in self.assigned]

    def pause(self, parts: list[TopicPartition]) -> None:
        self.paused |= {(each.topic, each.partition) for each in parts}

    def resume(self, parts: list[TopicPartition]) -> None:
        self.paused -= {(each.topic, each.partition) for each in parts}

    # the producer
    def offer(self, place: Place, *_: object) -> bool:
        self.sent.append(place)
        return True

    def poll(self, _: float) -> None:
        for place in [*self.sent] if self.acknowledges else []:
            self.acknowledge(place)

    def drain(self) -> None:
        self.sent.clear()

    def renew(self) -> None:
        self.is_broken = False
        self.moved_s = self.now_s

    def acknowledge(self, place: Place) -> None:
        """Acknowledge the first record of a partition that is not yet."""
        self.sent.remove(place)
        self.moved_s = self.now_s
        self.copier._delivered(None, cast("Any", Message(place, self.copier.reached[place])))

    # the markers
    def write(self, place: Place) -> None:
        self.marked.append(place)
        self.ends[place] = self.copier._places[place].next + 1
        self.now_s += 0.1


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_partition_without_acknowledgements_is_paused(stage: Stage) -> None:
    """Its leader in the target is missing. It must not fill the queue; the others are read."""
    stage.messages = [Message(SLOW, 0), Message(GOOD, 0)]
    stage.copier.turn()
    stage.now_s += 1
    stage.acknowledge(GOOD)
    stage.now_s += 2
    stage.copier.turn()
    assert stage.paused == {SLOW}
    assert stage.copier.is_at({GOOD: 1})
    stage.now_s += 40
    assert stage.copier.waiting == [SLOW]
    stage.acknowledge(SLOW)
    stage.copier.turn()
    assert stage.paused == set()
    assert stage.copier.troubles == {}


def test_stalled_partition_is_dropped_if_nothing_else_moves(stage: Stage) -> None:
    """Its records are dropped too. The other begins again where its copy ends, as its producer is replaced."""
    stage.messages = [Message(SLOW, 0), Message(GOOD, 0)]
    stage.copier.turn()
    stage.acknowledge(GOOD)
    stage.now_s += 31
    stage.copier.turn()
    slow, good = stage.copier.troubles[SLOW], stage.copier.troubles[GOOD]
    assert str(slow) == "slow-0: the target acknowledges no record"
    assert isinstance(good, BeginAgain)
    assert stage.sent == []
    assert stage.assigned == {}


def test_outage_does_not_count_as_a_stall(stage: Stage) -> None:
    stage.messages = [Message(SLOW, 0)]
    stage.copier.turn()
    stage.now_s += 300
    stage.copier.resume()
    stage.copier.turn()
    assert stage.copier.troubles == {}


def test_long_gap_is_filled_in_parts(stage: Stage) -> None:
    """A gap of a compacted topic may take hours. The other partition is read in between."""
    stage.messages = [Message(SLOW, 12)]
    stage.copier.turn()
    assert 0 < len(stage.marked) < 12
    assert SLOW not in stage.assigned
    stage.messages = [Message(GOOD, 0)]
    stage.copier.turn()
    assert stage.sent == [GOOD]
    while SLOW not in stage.assigned:
        stage.copier.turn()
    assert (stage.assigned[SLOW], len(stage.marked)) == (12, 12)


def test_error_of_the_source_drops_only_its_partition(stage: Stage) -> None:
    """Records that are on their way are delivered first."""
    stage.messages = [Message(SLOW, 0, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), Message(GOOD, 0)]
    stage.copier.turn()
    assert stage.copier.troubles.keys() == {SLOW}
    assert stage.copier.troubles[SLOW].error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert stage.sent == [GOOD]


def test_wrong_offset_stops_the_partition(stage: Stage) -> None:
    """Another producer writes to the copy."""
    stage.messages = [Message(SLOW, 0), Message(GOOD, 0)]
    stage.copier.turn()
    stage.copier._delivered(None, cast("Any", Message(SLOW, 7)))
    stage.copier._delivered(None, cast("Any", Message(GOOD, 0)))
    assert str(stage.copier.troubles[SLOW]).startswith("slow-0: the copy has offset 7, not 0: another producer")
    assert stage.copier.reached == {GOOD: 1}


@pytest.mark.parametrize(
    ("code", "stays_single"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, False), (KafkaError.MSG_SIZE_TOO_LARGE, True)],
)
def test_rejected_partition_is_tried_apart(stage: Stage, code: int, stays_single: bool) -> None:
    """Its failures then no longer disturb the others. It comes back to them unless its batches are too large."""
    stage.messages = [Message(SLOW, 0)]
    stage.copier.turn()
    stage.copier._delivered(KafkaError(code), cast("Any", Message(SLOW, -1)))
    assert stage.copier.troubles.pop(SLOW).error_code == code
    stage.copier.turn()
    stage.add(SLOW)
    stage.messages = [Message(SLOW, 0)]
    stage.copier.turn()
    assert stage.copier._places[SLOW].is_single
    stage.acknowledge(SLOW)
    stage.messages = [Message(SLOW, 1)]
    stage.copier.turn()
    assert stage.copier._places[SLOW].is_single is stays_single


def test_first_record_is_acknowledged_before_the_second(stage: Stage) -> None:
    """A broker that does not know the producer accepts its second batch, though it has rejected the first one."""
    stage.copier._places[SLOW].is_known = False
    outstanding = []
    stage.acknowledges = True
    stage.offer = lambda place, *_: (outstanding.append(len(stage.sent)), stage.sent.append(place)) is not None  # type: ignore[method-assign]
    stage.messages = [Message(SLOW, 0), Message(SLOW, 1), Message(SLOW, 2)]
    stage.copier.turn()
    assert outstanding == [0, 0, 1]
    assert stage.copier._places[SLOW].is_known
