"""`pybroker mirror` when topics disappear: were they deleted, recreated, or are they unavailable for a while?

Brokers of a cluster learn of a deletion one after the other, so one may still list a topic that another has deleted.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session
from pybroker.mirror import run as mirror_run
from pybroker.mirror.beginning import Beginning
from pybroker.mirror.interrupt import Interrupt
from pybroker.mirror.partition import NotACopy
from pybroker.mirror.run import MirrorRun, NothingLeft
from pybroker.mirror.topics import Chosen, MirroredTopic
from pybroker.mirror.troubles import Troubles

ORDERS = MirroredTopic("orders", 2, {}, "id-1")
AUDIT = MirroredTopic("audit", 1, {}, "id-2")
RECREATED = ORDERS._replace(id="id-3")
TIMEOUT_S = 5.0
DELETED = "orders: it was deleted at the source: its copy stays unchanged, and the other topics continue"


class Stage:
    """Lists topics: the first of `looks`, and the last one from then on. The test moves its clock."""

    def __init__(self, *looks: list[MirroredTopic]) -> None:
        self.looks = list(looks)
        self.now = 100.0
        self.dropped: list[object] = []
        self.reached: dict[Place, int] = {}
        self.unknown: dict[str, CommandError] = {}
        self.errors: dict[Place, CommandError] = {}

    def listed(self, *_: object) -> Chosen:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return Chosen([topic for topic in found if topic.name not in self.unknown], self.unknown)

    def drop(self, places: list[Place]) -> None:
        self.dropped.append(places)
        for place in places:
            self.reached.pop(place, None)

    def beginnings(self, _: object, __: object, ___: object, ____: object, places: list[Place]) -> Beginning:
        begin = {place: 0 for place in places if place not in self.errors}
        return Beginning(
            begin, dict(begin), dict(begin), [], {p: e for p, e in self.errors.items() if p in places}, set()
        )


class Runs:
    """Makes runs whose clients are the stage."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, stage: Stage, *, named: tuple[str, ...] = ()) -> MirrorRun:
        copier = SimpleNamespace(
            drop=stage.drop, reached=stage.reached, add=lambda begin, _: stage.reached.update(begin)
        )
        self._patch.setattr(mirror_run, "Copier", lambda *_, **__: copier)
        self._patch.setattr(mirror_run, "chosen_topics", stage.listed)
        self._patch.setattr(mirror_run, "find_beginnings", stage.beginnings)
        self._patch.setattr(mirror_run, "cut_starts", lambda *_: [])
        self._patch.setattr(mirror_run, "time", SimpleNamespace(monotonic=lambda: stage.now))
        self._patch.setattr(mirror_run, "Troubles", lambda patience_s: Troubles(patience_s, lambda: stage.now))
        options = SimpleNamespace(gaps="markers", topic=list(named), topics=None, json=False, until_end=False)
        found = SimpleNamespace(offsets={})
        session = cast("Session", SimpleNamespace(timeout_s=TIMEOUT_S, found_starts=lambda _: found))
        run = MirrorRun(session, session, options, None, lambda: pytest.fail("nothing is to be marked"), Interrupt())
        run._look()
        return run


@pytest.fixture
def make_run(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def notes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.removeprefix("pybroker mirror: ") for line in capsys.readouterr().err.splitlines()]


def test_deleted_topic_is_left_after_a_second_look(make_run: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that has just started may not know the topic yet."""
    stage = Stage([AUDIT, ORDERS], [AUDIT], [AUDIT, ORDERS], [AUDIT])
    run = make_run(stage)
    for _ in range(3):
        run._look()
        stage.now += 0.5
    assert (stage.dropped, notes(capsys)) == ([], [])
    stage.now += 1
    run._look()
    assert stage.dropped == [ORDERS.places]
    assert run._topics == [AUDIT]
    assert notes(capsys) == [DELETED]


def test_recreated_topic_is_not_copied(make_run: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """It has another topic id."""
    stage = Stage([AUDIT, ORDERS], [AUDIT, RECREATED])
    run = make_run(stage)
    run._look()
    run._look()
    assert stage.dropped == [ORDERS.places]
    assert run._topics == [AUDIT]
    assert [note for note in notes(capsys) if "recreated" in note]


def test_topic_that_cannot_be_described_is_not_deleted(make_run: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """Its permissions were changed, for example. Its known partitions continue."""
    stage = Stage([AUDIT, ORDERS])
    run = make_run(stage)
    stage.unknown["orders"] = CommandError("orders: Topic authorization failed", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    for _ in range(3):
        run._look()
        stage.now += 2
    assert stage.dropped == []
    assert notes(capsys) == ["orders: Topic authorization failed: trying again, and the others continue"]
    assert run._topics is not None
    assert {topic.name for topic in run._topics} == {"audit", "orders"}


def test_new_partition_is_tried_again_until_it_begins(make_run: Runs) -> None:
    """Its leader is not elected yet. The others are copied meanwhile."""
    stage = Stage([ORDERS])
    stage.errors["orders", 1] = CommandError("orders-1: Leader not available", KafkaError.LEADER_NOT_AVAILABLE)
    run = make_run(stage)
    assert stage.reached == {("orders", 0): 0}
    stage.errors.clear()
    stage.now += 1
    assert run._troubles.is_any_due()
    run._look()
    assert stage.reached == {("orders", 0): 0, ("orders", 1): 0}


def test_run_ends_when_all_named_topics_are_deleted(make_run: Runs) -> None:
    stage = Stage([AUDIT, ORDERS], [])
    run = make_run(stage, named=("orders", "audit"))
    run._look()
    stage.now += 2
    with pytest.raises(NothingLeft, match="the source no longer has any of these topics"):
        run._look()
    assert stage.dropped == [AUDIT.places, ORDERS.places]


def test_run_ends_when_no_partition_can_be_copied(make_run: Runs) -> None:
    """With the reason. As long as waiting may help one of them, it goes on."""
    stage = Stage([AUDIT, ORDERS])
    for place in (*AUDIT.places, *ORDERS.places):
        stage.errors[place] = NotACopy(f"{place[0]}-{place[1]}: it is not a copy")
    stage.errors["orders", 1] = CommandError("orders-1: Leader not available", KafkaError.LEADER_NOT_AVAILABLE)
    run = make_run(stage)
    run._check_left()
    stage.errors["orders", 1] = NotACopy("orders-1: it is not a copy")
    stage.now += 1
    run._look()
    with pytest.raises(NothingLeft, match="audit-0: it is not a copy"):
        run._check_left()
