"""Partitions that `pybroker mirror` does not copy now: when they are tried again, and what is reported."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from pybroker.cli.client.errors import CommandError
from pybroker.mirror.partition import BeginAgain, NotACopy
from pybroker.mirror.troubles import Troubles

ONE, TWO, OTHER = ("orders", 0), ("orders", 1), ("audit", 0)
PATIENCE_S = 30.0


class Stage:
    """Troubles, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.troubles = Troubles(PATIENCE_S, lambda: self.now_s)

    def fail(self, error: CommandError | None = None) -> None:
        self.troubles.add({ONE: error or CommandError("orders-0: no leader", KafkaError.LEADER_NOT_AVAILABLE)})

    def pause(self) -> float:
        """Return how long the partition waits for its next attempt, and move the clock there."""
        before = self.now_s
        while not self.troubles.may_begin(ONE):
            self.now_s += 0.1
        return self.now_s - before


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_pauses_grow_up_to_a_minute(stage: Stage) -> None:
    pauses = []
    for _ in range(12):
        stage.fail()
        pauses.append(stage.pause())
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60, 60], abs=0.11)


def test_pauses_are_short_again_after_a_quiet_minute(stage: Stage) -> None:
    for _ in range(8):
        stage.fail()
        stage.pause()
    stage.troubles.settle([ONE])
    stage.now_s += 61
    stage.fail()
    assert stage.pause() < 1


def test_partition_that_begins_again_does_so_at_once(stage: Stage) -> None:
    """But not each time: that would keep the mirror from all other work."""
    stage.fail(BeginAgain("orders-0: begins again"))
    assert stage.troubles.may_begin(ONE)
    assert stage.troubles.to_report() == []
    stage.troubles.settle([ONE])
    stage.fail(BeginAgain("orders-0: begins again"))
    assert not stage.troubles.may_begin(ONE)


def test_copy_that_is_none_is_not_tried_again(stage: Stage) -> None:
    stage.fail(NotACopy("orders-0: it is not a copy"))
    stage.now_s += 1_000_000
    assert not stage.troubles.may_begin(ONE)
    assert not stage.troubles.is_any_due()
    assert stage.troubles.are_final()
    assert stage.troubles.to_report() == ["orders-0: it is not a copy: left out, and the others continue"]


def test_partitions_with_the_same_trouble_share_a_line(stage: Stage) -> None:
    """Once, until it is another trouble."""
    for _ in range(2):
        stage.troubles.add({place: CommandError(f"{place[0]}-{place[1]}: no leader") for place in (ONE, TWO, OTHER)})
        lines = stage.troubles.to_report()
        stage.now_s += 1
    assert lines == []
    stage.fail(CommandError("orders-0: not authorized"))
    assert stage.troubles.to_report() == ["orders-0: not authorized: trying again, and the others continue"]


def test_deletion_is_reported_only_if_it_stays_unknown(stage: Stage) -> None:
    """The next look at the topics of the source usually explains it."""
    stage.fail(CommandError("orders-0: Unknown topic", KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert stage.troubles.to_report() == []
    stage.now_s += PATIENCE_S + 1
    assert stage.troubles.to_report() == ["orders-0: Unknown topic: trying again, and the others continue"]


def test_recovery_is_reported_after_a_while(stage: Stage) -> None:
    """Not for a record that is rejected again and again."""
    stage.fail()
    stage.troubles.to_report()
    for _ in range(3):
        stage.troubles.settle([ONE])
        stage.now_s += 1
        assert stage.troubles.recovered() == []
        stage.fail()
        assert stage.troubles.to_report() == []
    stage.troubles.settle([ONE])
    stage.now_s += 10
    assert stage.troubles.recovered() == [ONE]
    assert stage.troubles.recovered() == []


def test_partition_is_given_up_after_the_patience(stage: Stage) -> None:
    """Also if it begins between its failures. Beginning again for others' sake does not count."""
    for _ in range(4):
        stage.fail()
        assert not stage.troubles.are_given_up()
        stage.troubles.settle([ONE])
        stage.now_s += 9
    stage.fail()
    assert stage.troubles.are_given_up()
    stage.fail(BeginAgain("orders-0: begins again"))
    assert not stage.troubles.are_given_up()
