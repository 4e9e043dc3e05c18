"""Replica placement and leadership on a single node: the same as Apache Kafka, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribableLogDirTopic
from protocol.messages.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, Cursor, TopicRequest
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsTopics,
)
from tests.support.brokers import RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.pairs import Pair

TOPIC, OTHER = "orders", "audit"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("replicas"), {"log.segment.delete.delay.ms": "0"})
    made.create_topics({TOPIC: 3, OTHER: 2})
    yield made
    made.close()


# -- reassignments -----------------------------------------------------------------------------------------------------

Target = tuple[str, int, list[int] | None]
REASSIGNMENTS: list[list[Target]] = [
    [],
    [(TOPIC, 0, [1])],
    [(TOPIC, 0, None)],
    [(TOPIC, 0, [])],
    [(TOPIC, 0, [1, 1])],
    [(TOPIC, 0, [2])],
    [(TOPIC, 0, [1, 2])],
    [(TOPIC, 0, [-1])],
    [(TOPIC, 7, [1])],
    [(TOPIC, -1, [1])],
    [("unheard", 0, [1])],
    [("bad name!", 0, [1])],
    [("", 0, [1])],
    [(TOPIC, 0, [1]), (TOPIC, 1, None), (TOPIC, 9, [1]), (OTHER, 0, [3])],
    [(TOPIC, 0, [1]), (TOPIC, 0, [1])],
    [(TOPIC, 0, [1]), (TOPIC, 0, None)],
]


def _topics(targets: list[Target]) -> list[Any]:
    names = dict.fromkeys(name for name, _, _ in targets)
    return [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=replicas)
                for topic, index, replicas in targets
                if topic == name
            ],
        )
        for name in names
    ]


def _by_name(answer: Any) -> Any:
    """Return topics in an order; Kafka's is a hash table's."""
    for field in ("responses", "results", "topics", "replica_election_results"):
        if hasattr(answer, field):
            key = {"results": "topic_name", "replica_election_results": "topic"}.get(field, "name")
            setattr(answer, field, sorted(getattr(answer, field), key=lambda each: getattr(each, key)))
            for topic in getattr(answer, field) if field == "results" else ():
                topic.partitions.sort(key=lambda each: each.partition_index)
    return answer


def _has_copy(directory: int, described: dict[int, list[tuple[int, int, int, bool]]], *, expected: bool) -> bool:
    return any(is_copy for *_, is_copy in described[directory]) is expected


def _all_are_in(directory: int, answers: tuple[Any, Any]) -> bool:
    return all([number for number, found in each if found] == [directory] for each in answers)


@pytest.mark.parametrize("targets", REASSIGNMENTS, ids=str)
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("fixed_factor", [False, True])
def test_reassignments(pair: Pair, version: int, fixed_factor: bool, targets: list[Target]) -> None:
    """KIP-455, KIP-860: the reassignments that one node accepts, and its errors."""
    if version == 0 and fixed_factor:
        return
    fields = {"allow_replication_factor_change": not fixed_factor} if version else {}
    ours, kafka = pair.ask(ALTER_PARTITION_REASSIGNMENTS, version, timeout_ms=10_000, topics=_topics(targets), **fields)
    assert _by_name(ours) == _by_name(kafka)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_reassignments_without_time(pair: Pair, timeout_ms: int) -> None:
    ours, kafka = pair.ask(
        ALTER_PARTITION_REASSIGNMENTS, 1, timeout_ms=timeout_ms, topics=_topics([(TOPIC, 0, [1]), (OTHER, 9, None)])
    )
    assert _by_name(ours) == _by_name(kafka)


@pytest.mark.parametrize(
    "asked", [None, [], [(TOPIC, [0, 1])], [(TOPIC, [])], [(TOPIC, [9])], [("unheard", [0])]], ids=str
)
def test_ongoing_reassignments(pair: Pair, asked: list[tuple[str, list[int]]] | None) -> None:
    """There are none: an accepted one is done at once."""
    topics = asked and [ListPartitionReassignmentsTopics(name=name, partition_indexes=each) for name, each in asked]
    pair.same(LIST_PARTITION_REASSIGNMENTS, 0, timeout_ms=10_000, topics=topics)


# -- elections ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        [(TOPIC, [0, 1])],
        [(TOPIC, [])],
        [(TOPIC, [0, 9]), ("unheard", [0])],
        [("bad name!", [0])],
        [(TOPIC, [-1])],
        [(TOPIC, [0, 0])],
    ],
    ids=str,
)
@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 7)])
@pytest.mark.parametrize("timeout_ms", [10_000, 0])
def test_elections(
    pair: Pair, version: int, kind: int, timeout_ms: int, asked: list[tuple[str, list[int]]] | None
) -> None:
    """KIP-183, KIP-460: there is no election where the only replica leads."""
    topics = asked and [TopicPartitions(topic=name, partitions=each) for name, each in asked]
    fields = {"election_type": kind} if version else {}
    ours, kafka = pair.ask(ELECT_LEADERS, version, topic_partitions=topics, timeout_ms=timeout_ms, **fields)
    assert _by_name(ours) == _by_name(kafka)


# -- pages of topics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 100, -1])
@pytest.mark.parametrize(
    ("names", "cursor"),
    [
        ([], None),
        ([TOPIC, OTHER], None),
        ([TOPIC, OTHER, "unheard", "bad name!", ""], None),
        ([TOPIC, OTHER], (OTHER, 1)),
        ([TOPIC, OTHER], (OTHER, 2)),
        ([TOPIC, OTHER], (OTHER, 9)),
        ([TOPIC, OTHER], (TOPIC, 2)),
        ([TOPIC], (OTHER, 0)),
        ([TOPIC, OTHER], ("b", 0)),
        ([TOPIC, OTHER], (TOPIC, -1)),
        ([TOPIC, OTHER], ("zzz", 0)),
        ([], ("b", 1)),
        ([], (TOPIC, 1)),
        ([], ("zzz", 0)),
        ([TOPIC, TOPIC], None),
    ],
    ids=str,
)
def test_topics_come_in_pages(pair: Pair, limit: int, names: list[str], cursor: tuple[str, int] | None) -> None:
    """KIP-966; topic ids and leader epochs differ between brokers."""
    at = cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    ours, kafka = pair.ask(
        DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=at or None
    )
    for answer in (ours, kafka):
        if isinstance(answer, str):
            continue
        for topic in answer.topics:
            topic.topic_id = bool(any(topic.topic_id))
    assert ours == kafka


# -- log directories ---------------------------------------------------------------------------------------------------


def _move(pair: Pair, version: int, wanted: list[tuple[str, str, list[int]]]) -> tuple[Any, Any]:
    """Return answers for (directory, topic, partitions); directories are <1>, <2>, or literal."""

    def request(broker: RunningBroker) -> Any:
        first, second = map(str, pair.directories(broker))
        dirs = [
            AlterReplicaLogDir(
                path=path.replace("<1>", first).replace("<2>", second),
                topics=[AlterReplicaLogDirTopic(name=name, partitions=indexes)],
            )
            for path, name, indexes in wanted
        ]
        return _by_name(pair.client(broker).call(ALTER_REPLICA_LOG_DIRS, version, dirs=dirs))

    return pair.each(request)


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [("/nowhere", TOPIC, [0])],
        [("logs", TOPIC, [0])],
        [("", TOPIC, [0])],
        [("<1>/", TOPIC, [0])],
        [("<1>/.", TOPIC, [0])],
        [("<1>", TOPIC, [9, -1])],
        [("<1>", "unheard", [0])],
        [("<1>", "bad name!", [0])],
        [("<1>", "", [0])],
        [("<1>", "n" * 249, [0])],
        [("<1>", "n" * 209, [0])],
        [("<1>", "__cluster_metadata", [0])],
        [("/nowhere", "unheard", [0]), ("<1>", "unheard", [1])],
    ],
    ids=lambda each: str(each)[:60],
)
@pytest.mark.parametrize("version", [1, 2])
def test_impossible_moves(pair: Pair, version: int, wanted: list[tuple[str, str, list[int]]]) -> None:
    """KIP-113: only whole paths of log directories, and only existing partitions."""
    ours, kafka = _move(pair, version, wanted)
    assert ours == kafka


def _described(pair: Pair, broker: RunningBroker, topic: str) -> list[tuple[int, list[tuple[int, int, int, bool]]]]:
    """Return by number of the directory: partition, size, lag, whether it is a copy."""
    paths = [str(path) for path in pair.directories(broker)]
    asked = [DescribableLogDirTopic(topic=topic, partitions=[0, 1, 2])]
    found = pair.client(broker).call(DESCRIBE_LOG_DIRS, 5, topics=asked).results
    return sorted(
        (
            paths.index(each.log_dir) + 1,
            sorted(
                (p.partition_index, p.partition_size, p.offset_lag, p.is_future_key)
                for t in each.topics
                for p in t.partitions
            ),
        )
        for each in found
    )


def test_a_partition_moves_there_and_back(pair: Pair) -> None:
    """With its records; no files stay behind, and it is in its new place after a restart."""
    name = "moving"
    pair.create_topics({name: 2})
    for broker in pair.brokers:
        with DataClient("127.0.0.1", broker.port) as client:
            for number in range(300):
                client.produce(name, batch(b"value-%d" % number, timestamp=1_700_000_000_000))
    describe = partial(_described, pair, topic=name)
    for directory in (2, 1, 2):
        ours, kafka = _move(pair, 2, [(f"<{directory}>", name, [0, 1])])
        assert ours == kafka
        assert all(each.error_code == 0 for result in ours.results for each in result.partitions)
        ours, kafka = eventually(partial(pair.each, describe), until=partial(_all_are_in, directory))
        assert ours == kafka
        for broker in pair.brokers:
            with DataClient("127.0.0.1", broker.port) as client:
                assert client.values(name, 0) == [b"value-%d" % number for number in range(300)]
    pair.hang_up()
    pair.ours.stop()
    pair.ours.start()
    assert _described(pair, pair.ours, name) == ours
    eventually(  # the rest of a move that was under way at the stop is removed a moment after the start
        lambda: [sorted(each.name for each in path.glob(f"{name}*")) for path in pair.directories(pair.ours)],
        equal_to=[[], [f"{name}-0", f"{name}-1"]],
    )


def test_a_partition_is_created_in_its_assigned_directory(pair: Pair) -> None:
    """It does not exist yet, but the assignment is remembered."""
    for directory in (1, 2):
        name = f"sent-to-{directory}"
        ours, kafka = _move(pair, 2, [(f"<{directory}>", name, [0, 1, 2])])
        assert ours == kafka
        assert [each.error_code for each in ours.results[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
        pair.create_topics({name: 3})
        ours, kafka = pair.each(partial(_described, pair, topic=name))
        assert (
            ours
            == kafka
            == [(each, [(p, 0, 0, False) for p in range(3)] if each == directory else []) for each in (1, 2)]
        )


def test_a_slow_move_is_visible_and_can_be_cancelled(pair: Pair) -> None:
    """Meanwhile the partition is in both directories, in one as future; a deleted topic is in neither."""
    name = "slow"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    pair.ask(CREATE_TOPICS, 7, topics=[topic], timeout_ms=10_000)
    client = pair.client(pair.ours)
    with DataClient("127.0.0.1", pair.ours.port) as producer:
        for _ in range(40):
            producer.produce(name, batch(bytes(50_000)))
    _limit(pair, 10_000)
    here = next(number for number, found in _described(pair, pair.ours, name) if found)
    there = 3 - here
    for directory in (there, here, there):
        _move(pair, 2, [(f"<{directory}>", name, [0])])
        described = eventually(
            lambda: dict(_described(pair, pair.ours, name)),
            until=partial(_has_copy, there, expected=directory == there),
        )
        copies = [each for each in described[there] if each[3]]
        assert [each[3] for each in described[here]] == [False]
    assert copies[0][2] > 0
    client.call(DELETE_TOPICS, 6, topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    assert [found for _, found in _described(pair, pair.ours, name)] == [[], []]
    _limit(pair, 1 << 40)


def _limit(pair: Pair, bytes_per_second: int) -> None:
    config = AlterableConfig(
        name="replica.alter.log.dirs.io.max.bytes.per.second", config_operation=0, value=str(bytes_per_second)
    )
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    pair.same(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
