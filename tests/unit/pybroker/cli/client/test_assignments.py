"""Assignments of replicas: files, proposals, throttles; the documents' examples of placement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybroker.cli.client.assignments import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    Assignment,
    parse_assignment,
    parse_partitions,
    parse_topics,
    propose,
    read_plan,
    throttled_replicas,
    to_json,
)
from pybroker.cli.client.errors import UsageError


def assignment(partitions: int, factor: int) -> Assignment:
    return {("orders", index): list(range(factor)) for index in range(partitions)}


def test_a_file_of_kafka_is_read_and_written() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    assert parse_assignment(text) == ({("orders", 1): [2, 3]}, {})
    assert to_json(parse_assignment(text)[0]) == text
    assert parse_topics('{"topics":[{"topic":"orders"}],"version":1}') == ["orders"]


def test_log_directories_of_replicas_are_read() -> None:
    """The broker chooses the others."""
    entry = {"topic": "t", "partition": 3, "replicas": [1, 2, 4], "log_dirs": ["/a", "any", "/b"]}
    _, directories = parse_assignment(json.dumps({"version": 1, "partitions": [entry]}))
    assert directories == {("t", 3, 1): "/a", ("t", 3, 4): "/b"}


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ([], "list cannot be empty"),
        ([{"topic": "t", "partition": 0}], "lacks topic, partition or replicas"),
        ([{"topic": "t", "partition": 0, "replicas": [1, 1]}], "may not contain duplicate entries"),
        ([{"topic": "t", "partition": 0, "replicas": []}], "be empty"),
        ([{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/d", "/e"]}], r"\[/d, /e\] for partition t-0"),
        ([{"topic": "t", "partition": 0, "replicas": [1]}] * 2, "duplicate entries for t-0"),
        ({}, "list partitions"),
    ],
)
def test_a_wrong_file_is_rejected(partitions: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_assignment(json.dumps({"partitions": partitions}))


def test_partitions_of_an_election_are_read(tmp_path: Path) -> None:
    file = tmp_path / "elect.json"
    entries = [("a", 1), ("b", 0), ("a", 0)]
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": index} for topic, index in entries]}))
    assert parse_partitions(read_plan(file)) == {"a": [1, 0], "b": [0]}


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ([], "cannot be empty"),
        ([{"topic": "t"}], "lacks topic or partition"),
        (["t"], "lacks topic or partition"),
        ([{"topic": "t", "partition": 0}] * 2, "t-0 twice"),
    ],
)
def test_a_wrong_file_of_an_election_is_rejected(partitions: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_partitions(json.dumps({"partitions": partitions}))


def test_a_file_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    with pytest.raises(UsageError, match="No such file"):
        read_plan(file)
    file.write_bytes(b"\xff{}")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_plan(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "partitions": []}'])
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_assignment(text)


@pytest.mark.parametrize(("brokers", "partitions", "factor"), [(3, 6, 3), (5, 10, 3), (4, 12, 2), (1, 3, 1)])
def test_proposals_spread_leaders_and_replicas_evenly(brokers: int, partitions: int, factor: int) -> None:
    """S22.3: each broker leads as many partitions as the others."""
    found = propose(assignment(partitions, factor), dict.fromkeys(range(brokers)))
    leaders = [replicas[0] for replicas in found.values()]
    everywhere = [each for replicas in found.values() for each in replicas]
    assert all(len(set(replicas)) == factor for replicas in found.values())
    assert {leaders.count(each) for each in range(brokers)} == {partitions // brokers}
    assert {everywhere.count(each) for each in range(brokers)} == {partitions * factor // brokers}


def test_examples_of_the_documents() -> None:
    """S22.1, S22.2: partition i begins at broker i, and its replicas follow in the order of ids."""
    four = propose(assignment(4, 2), dict.fromkeys([1, 2, 3, 4]))
    assert list(four.values()) == [[1, 2], [2, 3], [3, 4], [4, 1]]
    six = propose(assignment(6, 2), dict.fromkeys([1, 2, 3, 4, 5, 6]))
    assert list(six.values()) == [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 1]]


def test_four_brokers_and_factor_three() -> None:
    """S21.11: each of three partitions is on three different brokers."""
    found = propose(assignment(3, 3), dict.fromkeys([1, 2, 3, 4]))
    assert [len(set(replicas)) for replicas in found.values()] == [3, 3, 3]


def test_replicas_of_a_partition_are_on_different_racks() -> None:
    racks = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
    for replicas in propose(assignment(12, 3), racks).values():
        assert {racks[each] for each in replicas} == {"a", "b", "c"}
    two = {0: "a", 1: "a", 2: "b"}
    for replicas in propose(assignment(6, 3), two).values():
        assert sorted(replicas) == [0, 1, 2]


def test_proposals_with_another_replication_factor() -> None:
    """A broker that was alone gets others beside it, and is alone again."""
    more = propose(assignment(3, 1), {0: None, 1: None, 2: None}, 3)
    assert [sorted(replicas) for replicas in more.values()] == [[0, 1, 2]] * 3
    assert list(propose(more, {2: None}, 1).values()) == [[2]] * 3


def test_more_replicas_than_brokers_are_impossible() -> None:
    """S21.12: two replicas of a partition cannot be on one broker."""
    with pytest.raises(UsageError, match="Replication factor: 3 larger than available brokers: 2"):
        propose(assignment(1, 3), {1: None, 2: None})


def test_throttles_name_todays_leaders_and_new_followers() -> None:
    current = {("orders", 0): [1, 2], ("orders", 1): [2, 3], ("other", 0): [1]}
    target = {("orders", 0): [2, 4], ("orders", 1): [3, 2], ("other", 0): [1]}
    assert throttled_replicas(current, target) == {
        "orders": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:4"},
        "other": {},
    }
