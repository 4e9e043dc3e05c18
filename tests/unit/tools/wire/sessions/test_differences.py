"""Comparison of responses."""

from __future__ import annotations

import pytest

from tools.data.java_text import JsonValue
from tools.wire.sessions.differences import Comparison, Difference
from tools.wire.sessions.ids import Ids


def differences(recorded: dict[str, JsonValue], now: dict[str, JsonValue], ids: Ids | None = None) -> list[Difference]:
    return Comparison(ids or Ids()).differences(recorded, now, "g")


def test_fields_are_compared_by_path() -> None:
    """Elements of lists are matched by the fields that name them, in any order."""
    recorded: dict[str, JsonValue] = {
        "error_code": 0,
        "topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": 3}]}, {"name": "b"}],
    }
    now: dict[str, JsonValue] = {
        "error_code": 1,
        "topics": [{"name": "b"}, {"name": "a", "partitions": [{"partition_index": 0, "error_code": 0}]}],
    }
    assert differences(recorded, now) == [
        Difference("error_code", 0, 1),
        Difference("topics[a].partitions[0].error_code", 3, 0),
    ]


def test_missing_elements_differ() -> None:
    """On both sides."""
    a: JsonValue = {"name": "a"}
    b: JsonValue = {"name": "b"}
    assert differences({"topics": [a, b]}, {"topics": [b]}) == [Difference("topics[a]", a, None)]
    assert differences({"topics": [a]}, {"topics": [b, a]}) == [Difference("topics[b]", None, b)]


def test_elements_without_names_are_paired_by_index() -> None:
    """Lists of numbers are compared as a whole."""
    assert differences({"x": [{"v": 1}, {"v": 2}]}, {"x": [{"v": 1}, {"v": 3}]}) == [Difference("x[1].v", 2, 3)]
    assert differences({"x": [1, 2]}, {"x": [2, 1]}) == [Difference("x", [1, 2], [2, 1])]


@pytest.mark.parametrize(
    "name", ["throttle_time_ms", "host", "cluster_id", "leader_epoch", "error_message", "total_bytes", "hmac"]
)
def test_volatile_fields_are_ignored(name: str) -> None:
    """At any depth."""
    assert differences({name: 1, "x": {name: 1}}, {name: 2, "x": {name: 2}}) == []


def test_fields_of_the_option_are_ignored() -> None:
    """By name, at any depth."""
    comparison = Comparison(Ids(), ["offset"])
    assert comparison.differences({"x": {"offset": 1, "y": 1}}, {"x": {"offset": 2, "y": 2}}) == [
        Difference("x.y", 1, 2)
    ]


def test_ids_are_learned_and_not_compared() -> None:
    """Except for whether there is one."""
    ids = Ids()
    recorded: dict[str, JsonValue] = {"producer_id": 1000, "producer_epoch": 0, "generation_id": 1}
    assert differences(recorded, {"producer_id": 7, "producer_epoch": 2, "generation_id": 4}, ids) == []
    assert ids.now("producer_id", "", 1000) == 7
    assert ids.now("producer_epoch", "1000", 0) == 2
    assert ids.now("generation_id", "g", 1) == 4
    assert differences({"producer_id": 1000}, {"producer_id": -1}) == [Difference("producer_id", 1000, -1)]


def test_members_are_paired_by_id() -> None:
    """By the id learned for them, else by index."""
    ids = Ids()
    ids.learn("member_id", "", "a", "z")
    recorded: list[JsonValue] = [{"member_id": "a", "v": 1}, {"member_id": "b", "v": 2}]
    now: list[JsonValue] = [{"member_id": "y", "v": 3}, {"member_id": "z", "v": 1}]
    assert differences({"members": recorded}, {"members": now}, ids) == [Difference("members[b].v", 2, 3)]
    assert ids.now("member_id", "", "b") == "y"


def test_append_times_are_ignored() -> None:
    """Timestamps of producers are compared."""
    record: JsonValue = {"offset": 0, "timestamp": 1, "value": "a"}
    later: JsonValue = {"offset": 0, "timestamp": 2, "value": "a"}

    def batch(content: JsonValue, **fields: JsonValue) -> dict[str, JsonValue]:
        return {"records": [{"base_offset": 0, **fields, "records": [content]}]}

    assert differences(batch(record), batch(later)) == [Difference("records[0].records[0].timestamp", 1, 2)]
    appended: dict[str, JsonValue] = {"timestamp_type": "LogAppendTime"}
    assert differences(batch(record, **appended), batch(later, **appended)) == []
    assert differences(batch(record, control=True), batch(later, control=True)) == []
