"""`pybroker mirror` when a topic's source fails: was the topic deleted, or is it an error?

Brokers of a cluster learn of a deletion one after the other, so one may still list a topic that another has deleted.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session
from pybroker.mirror import run as mirror_run
from pybroker.mirror.run import MirrorRun
from pybroker.mirror.topics import GONE, MirroredTopic

ORDERS = MirroredTopic("orders", 2, {}, "id-1")
AUDIT = MirroredTopic("audit", 1, {}, "id-2")
RECREATED = ORDERS._replace(id="id-3")
TIMEOUT_S = 5.0


class Source:
    """Lists topics: the first of `looks`, and the last one from then on. sleep() advances its clock."""

    def __init__(self, *looks: list[MirroredTopic]) -> None:
        self.looks = list(looks)
        self.now = 100.0
        self.dropped: list[object] = []
        self.troubles: dict[str, CommandError] = {}

    def listed(self, *_: object) -> list[MirroredTopic]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Runs:
    """Makes runs whose copier reports trouble with topics of a source."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, source: Source, *, named: tuple[str, ...] = ()) -> MirrorRun:
        copier = SimpleNamespace(troubles=source.troubles, drop=source.dropped.append)
        self._patch.setattr("pybroker.mirror.run.Copier", lambda *_, **__: copier)
        self._patch.setattr("pybroker.mirror.run.chosen_topics", source.listed)
        clock = SimpleNamespace(monotonic=lambda: source.now, sleep=source.sleep)
        self._patch.setattr(mirror_run, "time", clock)
        options = SimpleNamespace(gaps="markers", topic=list(named), topics=None, json=False)
        session = cast("Session", SimpleNamespace(timeout_s=TIMEOUT_S))
        run = MirrorRun(session, session, options, None, lambda: pytest.fail("nothing is to be marked"))
        run._topics = [AUDIT, ORDERS]
        return run


@pytest.fixture
def make_run(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def trouble(code: int) -> CommandError:
    return CommandError("orders-0: what the source has against it", code)


@pytest.mark.parametrize("code", sorted(GONE))
def test_deleted_topic_may_be_listed_for_a_while(make_run: Runs, capsys: pytest.CaptureFixture[str], code: int) -> None:
    """The run waits until no broker lists it, reports it once, and continues with the other topic."""
    source = Source([AUDIT, ORDERS], [AUDIT, ORDERS], [AUDIT])
    source.troubles["orders"] = trouble(code)
    run = make_run(source)
    run._settle()
    assert source.dropped == [ORDERS.places]
    assert run._topics == [AUDIT]
    assert source.troubles == {}
    assert 100.0 < source.now < 100.0 + TIMEOUT_S
    message = "orders: it was deleted at the source: its copy stays unchanged, and the other topics continue"
    assert capsys.readouterr().err.splitlines() == [f"pybroker mirror: {message}"]


def test_recreated_topic_is_not_copied(make_run: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """It has another topic id."""
    source = Source([AUDIT, RECREATED])
    source.troubles["orders"] = trouble(KafkaError.UNKNOWN_TOPIC_ID)
    run = make_run(source)
    run._settle()
    assert source.dropped == [ORDERS.places]
    assert run._topics == [AUDIT]
    assert "recreated" in capsys.readouterr().err


def test_topic_that_stays_listed_is_an_error(make_run: Runs) -> None:
    """After the timeout, with the source's error."""
    source = Source([AUDIT, ORDERS])
    source.troubles["orders"] = expected = trouble(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(CommandError) as raised:
        make_run(source)._settle()
    assert raised.value is expected
    assert TIMEOUT_S < source.now - 100.0 < TIMEOUT_S + 1
    assert source.dropped == []


def test_other_errors_fail_at_once(make_run: Runs) -> None:
    """Missing read access, for example, does not mean that the topic was deleted."""
    source = Source([AUDIT, ORDERS])
    source.troubles["orders"] = expected = trouble(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(CommandError) as raised:
        make_run(source)._settle()
    assert raised.value is expected
    assert source.now == 100.0


def test_error_of_a_deleted_topic_is_ignored(make_run: Runs) -> None:
    """Whatever the error: the topic is no longer copied."""
    source = Source([AUDIT])
    source.troubles["orders"] = trouble(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    run = make_run(source)
    run._settle()
    assert run._topics == [AUDIT]


def test_run_ends_when_all_topics_are_deleted(make_run: Runs) -> None:
    source = Source([])
    source.troubles.update(orders=trouble(KafkaError.UNKNOWN_TOPIC_ID), audit=trouble(KafkaError.UNKNOWN_TOPIC_ID))
    with pytest.raises(CommandError, match="the source no longer has any of these topics"):
        make_run(source, named=("orders", "audit"))._settle()
    assert source.dropped == [AUDIT.places, ORDERS.places]
