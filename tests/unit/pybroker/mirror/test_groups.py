"""Which commits `pybroker mirror` writes to the target, and when it writes them again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from pybroker.cli.client.session import Place, Session
from pybroker.mirror.groups import GroupOffsets, MoveResult

ORDERS = ("orders", 0)
HOUR_S = 3600.0


def answer(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Cluster:
    """The groups of a cluster, and the commits that were written to it."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[Place, tuple[int, str]]] = {"shop": {}}
        self.written: list[dict[Place, tuple[int, str]]] = []
        self.admin = self
        self.timeout_s = 1.0

    def wait(self, future: Future[Any], about: str = "") -> Any:
        return future.result(0)

    def wait_for_all(self, futures: Mapping[str, Future[Any]]) -> dict[str, Any]:
        return {name: future.result(0) for name, future in futures.items()}

    def found_ends(self, places: Any) -> Any:
        return SimpleNamespace(epochs=dict.fromkeys(places, 3))

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        groups = [SimpleNamespace(group_id=name, type=SimpleNamespace(name="CLASSIC")) for name in self.commits]
        return answer(SimpleNamespace(valid=groups))

    def list_consumer_group_offsets(self, asked: list[ConsumerGroupTopicPartitions], **_: object) -> dict[str, Any]:
        found = self.commits.get(asked[0].group_id, {}).items()
        parts = [TopicPartition(*place, offset, metadata) for place, (offset, metadata) in found]
        return {asked[0].group_id: answer(SimpleNamespace(topic_partitions=parts))}

    def alter_consumer_group_offsets(self, asked: list[ConsumerGroupTopicPartitions], **_: object) -> dict[str, Any]:
        (group,) = asked
        written = {(each.topic, each.partition): (each.offset, each.metadata) for each in group.topic_partitions or ()}
        self.written.append(written)
        self.commits.setdefault(group.group_id, {}).update(written)
        return {group.group_id: answer(SimpleNamespace(topic_partitions=group.topic_partitions))}


class Stage:
    """A source and a target with one group, and a clock."""

    def __init__(self) -> None:
        self.source, self.target = Cluster(), Cluster()
        self.now_s = 1.0
        sessions = cast("Session", self.source), cast("Session", self.target)
        self.groups = GroupOffsets(*sessions, None, lambda: self.now_s)

    def copy(self, end: int = 100) -> list[MoveResult]:
        return self.groups.copy({ORDERS: end})


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.source.commits["shop"] = {ORDERS: (40, "note")}
    return stage


def test_commit_is_written_once(stage: Stage) -> None:
    assert stage.copy() == [MoveResult("shop", 1, None)]
    assert stage.copy() == []
    assert stage.target.written == [{ORDERS: (40, "note")}]


def test_unchanged_commit_is_renewed_each_hour(stage: Stage) -> None:
    """The target would remove it after offsets.retention.minutes, though the source's group is in use."""
    stage.copy()
    stage.now_s += HOUR_S + 1
    assert stage.copy() == []
    assert stage.copy() == []
    assert stage.target.written == [{ORDERS: (40, "note")}] * 2


def test_expired_commit_is_written_again(stage: Stage) -> None:
    stage.copy()
    stage.target.commits["shop"] = {}
    stage.now_s += HOUR_S + 1
    stage.copy()
    assert stage.target.commits["shop"] == {ORDERS: (40, "note")}


def test_commit_of_the_targets_own_group_is_not_renewed(stage: Stage) -> None:
    """It has moved on there."""
    stage.copy()
    stage.target.commits["shop"] = {ORDERS: (70, "its own")}
    stage.now_s += HOUR_S + 1
    assert stage.copy() == []
    assert stage.target.commits["shop"] == {ORDERS: (70, "its own")}


def test_offset_goes_back_only_if_it_was_written_here(stage: Stage) -> None:
    stage.copy()
    stage.source.commits["shop"] = {ORDERS: (10, "")}
    stage.copy()
    assert stage.target.commits["shop"] == {ORDERS: (10, "")}
    stage.target.commits["shop"] = {ORDERS: (60, "")}
    stage.source.commits["shop"] = {ORDERS: (5, "")}
    assert stage.copy() == []
    assert stage.target.commits["shop"] == {ORDERS: (60, "")}


def test_metadata_belongs_to_its_offset(stage: Stage) -> None:
    """The copy does not reach the offset yet; then it does."""
    stage.copy(end=30)
    assert stage.target.commits["shop"] == {ORDERS: (30, "")}
    stage.copy()
    assert stage.target.commits["shop"] == {ORDERS: (40, "note")}
