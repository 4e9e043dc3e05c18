"""Requests of public reports about other brokers (tests/data/reports.tsv): the same answers as Apache Kafka's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from protocol.messages.create_acls import CREATE_ACLS
from protocol.messages.create_partitions import CREATE_PARTITIONS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.delete_acls import DELETE_ACLS
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.fetch import FETCH
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_fetch import OFFSET_FETCH
from tests.support.brokers import HOST, RunningBroker
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually
from tests.support.recorded_answers import RecordedAnswers, plain
from tests.support.settled import wait_for_topic

_GZIP = 1
_DAY_MS = 86_400_000
_MOST = 10_000
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_STARTING = {14, 15, 16}

Ask = Callable[[RunningBroker, DataClient, str], Any]


@pytest.fixture
def compare(
    shared_broker: Callable[[str], RunningBroker],
    recorded: RecordedAnswers,
    name: str,
    request: pytest.FixtureRequest,
) -> Callable[[Ask], None]:
    """Return a function that compares what `ask(broker, client, name)` returns with both brokers."""

    def compare(ask: Ask) -> None:
        def answer(kind: str) -> Any:
            broker = shared_broker(kind)
            with DataClient(HOST, broker.port) as client:
                return ask(broker, client, name)

        ours = plain(answer("ours"))
        assert ours == recorded.of(request.node.name, lambda: answer("kafka"))

    return compare


def a_topic(broker: RunningBroker, client: DataClient, name: str, partitions: int = 1, **configs: str) -> bytes:
    topic_id = client.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
    wait_for_topic(broker, name, partitions)
    return topic_id


@pytest.mark.parametrize(
    "counts",
    [(_MOST + 1,), (5_000, 5_000, 1), (2**31 - 1, 2), (2**31 - 1, 2**31 - 1, 2), (2**31 - 1,)],
    ids=str,
)
@needs_4_4
def test_too_many_partitions_are_refused_at_once(compare: Callable[[Ask], None], counts: tuple[int, ...]) -> None:
    """Their sum overflowed 32 bits (apache/kafka 22722)."""

    def ask(_: RunningBroker, client: DataClient, name: str) -> list[tuple[int, str | None]]:
        topics = [
            {"name": f"{name}-{index}", "num_partitions": count, "replication_factor": 1}
            for index, count in enumerate(counts)
        ]
        results = client.call(CREATE_TOPICS, 7, topics=topics, timeout_ms=30_000).topics
        return [(each.error_code, each.error_message) for each in results]

    compare(ask)


@pytest.mark.parametrize("count", [_MOST + 2, 2**31 - 1])
@needs_4_4
def test_too_many_more_partitions(compare: Callable[[Ask], None], count: int) -> None:
    """CreatePartitions had no limit (apache/kafka 20485)."""

    def ask(broker: RunningBroker, client: DataClient, name: str) -> list[int]:
        a_topic(broker, client, name)
        topics = [{"name": name, "count": count, "assignments": None}]
        results = client.call(CREATE_PARTITIONS, 3, topics=topics, timeout_ms=30_000, validate_only=True).results
        return [each.error_code for each in results]

    compare(ask)


@pytest.mark.parametrize("codec", [0, _GZIP])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_record_of_the_largest_timestamp(compare: Callable[[Ask], None], codec: int, kind: str) -> None:
    """ListOffsets named the last record of a compressed batch (apache/kafka 15474)."""

    def ask(broker: RunningBroker, client: DataClient, name: str) -> list[int]:
        a_topic(broker, client, name, message_timestamp_type=kind)
        client.produce(name, batch(b"a", b"b", b"c", codec=codec))
        client.produce(name, batch(b"d", b"e", codec=codec, timestamp=1_700_000_000_000 - _DAY_MS))
        time.sleep(0.01)  # with LogAppendTime the next batch is of a later millisecond
        client.produce(name, batch(b"f", b"g", b"h", codec=codec, timestamp=1_700_000_000_000))
        return [client.offset_for_timestamp(name, -3)]

    compare(ask)


@pytest.mark.parametrize("timestamp", [-7, -6, -5, -4, -3, -2, -1, 0, 2**62])
def test_each_timestamp_at_each_version(compare: Callable[[Ask], None], timestamp: int) -> None:
    """A double of the broker answered some otherwise (twmb/franz-go 1434): also for one partition twice."""

    def ask(broker: RunningBroker, client: DataClient, name: str) -> dict[str, list[tuple[int, int]]]:
        a_topic(broker, client, name)
        found = {}
        for version in range(2, 12):
            for times in (1, 2):
                wanted = [{"partition_index": 0, "timestamp": timestamp}] * times
                topics = [{"name": name, "partitions": wanted}]
                fields = {"timeout_ms": 1000} if version >= 10 else {}
                [answer] = client.call(LIST_OFFSETS, version, fields, replica_id=-1, topics=topics).topics
                found[f"{version} {times}"] = [(each.error_code, each.offset) for each in answer.partitions]
        return found

    compare(ask)


def test_too_large_metadata_leaves_no_pending_commit(compare: Callable[[Ask], None]) -> None:
    """Later fetches of stable offsets failed (apache/kafka 15536)."""

    def ask(broker: RunningBroker, client: DataClient, name: str) -> list[tuple[int, int]]:
        a_topic(broker, client, name, 2)
        eventually(lambda: client.find_coordinator(name) or True, retried=Refused, timeout_s=30)
        partitions = [
            {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x" * 5000},
            {"partition_index": 1, "committed_offset": 8, "committed_metadata": "x"},
        ]
        topics = [{"name": name, "partitions": partitions}]

        def commit() -> list[int]:
            fields = {"group_id": name, "generation_id_or_member_epoch": -1, "topics": topics}
            [answer] = client.call(OFFSET_COMMIT, 8, fields).topics
            return [each.error_code for each in answer.partitions]

        codes = eventually(commit, until=lambda found: not _STARTING & set(found))
        wanted = {"group_id": name, "topics": [{"name": name, "partition_indexes": [0, 1]}]}
        [group] = client.call(OFFSET_FETCH, 8, groups=[wanted], require_stable=True).groups
        return [
            *((code, -2) for code in codes),
            *((each.error_code, each.committed_offset) for each in group.topics[0].partitions),
        ]

    compare(ask)


def test_session_with_a_recreated_topic(compare: Callable[[Ask], None]) -> None:
    """The partition keeps its old topic id in a fetch session, so the answer is an error (twmb/franz-go 1426)."""

    def ask(broker: RunningBroker, client: DataClient, name: str) -> list[list[int]]:
        topic_id = a_topic(broker, client, name)
        client.produce(name, batch(b"old"))
        first = {"topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}
        opened = client.call(FETCH, 13, max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[first])
        client.delete_topic(name)
        a_topic(broker, client, name)
        client.produce(name, batch(b"new"))
        answers = []
        for epoch in (1, 2):
            again = client.call(
                FETCH, 13, max_wait_ms=0, min_bytes=0, session_id=opened.session_id, session_epoch=epoch, topics=[]
            )
            answers.append([again.error_code, *(p.error_code for t in again.responses for p in t.partitions)])
        return answers

    compare(ask)


def test_too_many_entries_are_deleted_by_none(
    start_broker: Callable[..., RunningBroker], recorded: RecordedAnswers
) -> None:
    """One filter for all, and one for each: nothing is deleted beyond the limit (apache/kafka 19974)."""
    secured = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    one = {"resource_type": 2, "resource_pattern_type": 3, "host": "*", "operation": 3, "permission_type": 3}

    def filter_for(topic: str | None) -> dict[str, object]:
        wanted = {"resource_type_filter": 2, "resource_name_filter": topic, "pattern_type_filter": 1}
        return {**wanted, "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}

    def answer(kind: str) -> list[list[Any]]:
        with DataClient(HOST, start_broker(kind, secured).port) as client:
            for start in range(0, _MOST + 2, 3334):
                topics = [f"t{number}" for number in range(start, start + 3334)]
                creations = [{**one, "resource_name": topic, "principal": "User:a"} for topic in topics]
                assert not any(each.error_code for each in client.call(CREATE_ACLS, 3, creations=creations).results)
            found = []
            for filters in ([filter_for(None)], [filter_for("t1"), filter_for(None), filter_for("t2")]):
                results = client.call(DELETE_ACLS, 3, filters=filters).filter_results
                left = client.call(DESCRIBE_ACLS, 3, filter_for(None)).resources
                found.append(
                    [*((each.error_code, each.error_message, len(each.matching_acls)) for each in results), len(left)]
                )
            creations = [{**one, "resource_name": f"u{number}", "principal": "User:a"} for number in range(_MOST + 1)]
            results = client.call(CREATE_ACLS, 3, creations=creations).results
            found.append([*sorted({(each.error_code, each.error_message) for each in results}), len(results)])
            return found

    kafka = recorded.of("entries", lambda: answer("kafka"))
    assert plain(answer("ours")) == kafka
