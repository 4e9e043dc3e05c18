"""ListOffsets with a deferred response: many partitions, or timestamps inside large batches."""

from __future__ import annotations

import errno
import pickle
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.fs import LOCAL
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker

START_MS = 1_700_000_000_000
#: Records of a batch that is searched on the loop, and of one that a worker searches.
SMALL, LARGE = 200, 600
LATEST, MAX_TIMESTAMP = -1, -3


def append(broker: DataBroker, records: int, index: int = 0) -> None:
    builder = BatchBuilder(codec=Codec.GZIP)
    for number in range(records):
        builder.append(START_MS + number, None, b"v")
    partition = broker.partitions.get("t", index)
    assert partition is not None
    partition.append(builder.build(), broker.clock.now_ms())


def ask(broker: DataBroker, timestamp: int, count: int = 1, *, first: int = 0) -> Deferred[Struct]:
    """Request partitions 0 to `count`."""
    partitions = [
        ListOffsetsPartition(partition_index=first + index, timestamp=timestamp, current_leader_epoch=-1)
        for index in range(count)
    ]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)]
    reply = broker.send(LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, topics=topics)
    assert reply is not None
    return reply


def answers(broker: DataBroker, reply: Deferred[Struct]) -> list[tuple[int, ErrorCode, int, int]]:
    """Return (partition, error code, timestamp, offset) of each."""
    [topic] = broker.received(LIST_OFFSETS, 11, reply).topics
    return [
        (each.partition_index, ErrorCode(each.error_code), each.timestamp, each.offset) for each in topic.partitions
    ]


def turns(broker: DataBroker, reply: Deferred[Any]) -> int:
    """Count the turns of the loop from here on."""
    for count in range(100):
        if reply.done:
            return count
        broker.loop.turn()
    raise AssertionError("not in a hundred turns")


@pytest.fixture
def large(broker: DataBroker) -> DataBroker:
    """Two partitions with a large batch each. The workers do nothing until the test releases them."""
    broker.topic(partitions=2)
    for index in range(2):
        append(broker, LARGE, index)
    broker.workers.held = True
    return broker


# -- many partitions -------------------------------------------------------------------------------------------------


def test_a_time_in_a_small_batch_is_answered_at_once(broker: DataBroker) -> None:
    broker.topic()
    append(broker, SMALL)
    for timestamp in (START_MS + SMALL - 1, MAX_TIMESTAMP, LATEST, -2):
        assert ask(broker, timestamp).done
    assert broker.workers.submitted == 0


@pytest.mark.parametrize("timestamp", [START_MS + SMALL - 1, MAX_TIMESTAMP])
def test_each_turn_looks_up_a_few_partitions(broker: DataBroker, timestamp: int) -> None:
    """Other requests are answered in between. The response keeps the order of the request."""
    broker.topic(partitions=20)
    for index in range(20):
        append(broker, SMALL, index)
    reply = ask(broker, timestamp, 20)
    assert not reply.done
    assert ask(broker, timestamp, first=3).done
    assert 3 <= turns(broker, reply) <= 5
    expected = [(index, ErrorCode.NONE, START_MS + SMALL - 1, SMALL - 1) for index in range(20)]
    assert answers(broker, reply) == expected


def test_each_turn_looks_up_some_hundreds_of_ends(broker: DataBroker) -> None:
    broker.topic()
    reply = ask(broker, LATEST, 5000)
    assert 5 <= turns(broker, reply) <= 7
    found = answers(broker, reply)
    assert found[0] == (0, ErrorCode.NONE, -1, 0)
    assert found[1:] == [(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1) for index in range(1, 5000)]


def test_many_requests_take_turns(broker: DataBroker) -> None:
    """However many requests there are, one of them runs in a turn of the loop."""
    broker.topic()
    replies = [ask(broker, LATEST, 2000) for _ in range(10)]
    done = []
    for _ in range(20):
        broker.loop.turn()
        done.append(sum(each.done for each in replies))
    assert done == [*[0] * 10, *range(1, 11)]


def test_v0_reads_some_segments_in_a_turn(broker: DataBroker) -> None:
    """Only the file knows when a segment was last modified. Its base offset is known without the file."""
    partition = broker.topic(config=LogConfig(segment_bytes=100))
    for _ in range(100):
        append(broker, 1)

    def ask_v0(timestamp: int) -> Deferred[Struct]:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1000)
        reply = broker.send(LIST_OFFSETS, 0, replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
        assert reply is not None
        return reply

    def offsets(reply: Deferred[Struct]) -> list[int]:
        found: list[int] = broker.received(LIST_OFFSETS, 0, reply).topics[0].partitions[0].old_style_offsets
        return found

    assert offsets(ask_v0(LATEST)) == list(range(100, -1, -1))
    LOCAL.set_modified_ms(partition.log.segments[5].log.path, 1000)
    reply = ask_v0(1000)
    assert turns(broker, reply) == 2
    assert offsets(reply) == [5, 4, 3, 2, 1, 0]
    reply = ask_v0(1000)
    broker.partitions.delete("t")
    broker.settle()
    [answer] = broker.received(LIST_OFFSETS, 0, reply).topics[0].partitions
    assert (answer.error_code, answer.old_style_offsets) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


# -- large batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("timestamp", "found"), [(START_MS + 7, 7), (MAX_TIMESTAMP, LARGE - 1)])
def test_a_large_batch_is_searched_by_a_worker(large: DataBroker, timestamp: int, found: int) -> None:
    reply = ask(large, timestamp, 2)
    for _ in range(2):
        large.settle()
        assert not reply.done
        large.workers.release()
    expected = [(index, ErrorCode.NONE, START_MS + found, found) for index in range(2)]
    assert answers(large, reply) == expected


def test_many_requests_for_large_batches_hold_few_bytes(large: DataBroker) -> None:
    """A search that waits for a worker is a name and some numbers, whatever the batch size. Few wait at a time."""
    replies = [ask(large, START_MS + 7, 2) for _ in range(50)]
    assert large.workers.submitted == large.workers.size
    assert all(len(job) < 1000 for job, _ in large.workers._jobs)
    assert large.held_bytes == 0
    while large.workers.is_wanted:
        large.workers.release()
    assert all(answers(large, each)[1] == (1, ErrorCode.NONE, START_MS + 7, 7) for each in replies)


@pytest.mark.parametrize("timestamp", [START_MS + 7, MAX_TIMESTAMP])
def test_the_topic_is_deleted_during_a_search(large: DataBroker, timestamp: int) -> None:
    """The answer is the same if the topic is created again, and if the worker had finished before."""
    reply, other = ask(large, timestamp), ask(large, timestamp)
    job = pickle.loads(large.workers._jobs[1][0])
    searched = job[0](*job[1])
    large.partitions.delete("t")
    large.topic(topic_id=b"another-16-bytes")
    large.workers.release()
    large.workers._jobs.pop()[1].resolve(searched)
    for each in (reply, other):
        assert answers(large, each) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
    assert large.logs.directories[0].is_online


def test_the_directory_fails_during_a_search(large: DataBroker) -> None:
    reply = ask(large, START_MS + 7, 2)
    large.logs.directories[0].fail("disk on fire")
    large.workers.release()
    assert answers(large, reply) == [(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1) for index in range(2)]


def test_a_worker_that_cannot_read_takes_the_dir_offline(large: DataBroker) -> None:
    reply = ask(large, START_MS + 7)

    def fail(function: object, *args: object) -> None:
        raise OSError(errno.EIO, "broken")

    large.workers.run = fail  # type: ignore[method-assign]
    large.workers.release()
    assert answers(large, reply) == [(0, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)]
    assert not large.logs.directories[0].is_online


def test_a_search_that_kills_its_worker_returns_batch_start(large: DataBroker) -> None:
    """A consumer that reads from there misses no record."""
    append(large, SMALL)
    reply = ask(large, START_MS + 7)
    large.workers.die()
    assert answers(large, reply) == [(0, ErrorCode.NONE, START_MS + LARGE - 1, 0)]


def test_records_are_deleted_during_a_search(large: DataBroker) -> None:
    partition = large.partitions.get("t", 0)
    assert partition is not None
    reply = ask(large, START_MS + 7)
    job = pickle.loads(large.workers._jobs[0][0])
    searched = job[0](*job[1])
    partition.delete_records(30)
    large.workers._jobs.pop()[1].resolve(searched)
    large.workers.release()
    assert answers(large, reply) == [(0, ErrorCode.NONE, START_MS + 30, 30)]


def test_a_client_that_disconnects_ends_its_search(large: DataBroker) -> None:
    replies = [ask(large, START_MS + 7) for _ in range(4)]
    for each in replies[1:]:
        each.cancel()
    while large.workers.is_wanted:
        large.workers.release()
    assert large.workers.submitted == 2
    assert answers(large, replies[0])[0][3] == 7
