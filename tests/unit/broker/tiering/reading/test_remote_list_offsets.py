"""ListOffsets of a log whose first offsets are in remote storage alone: special timestamps, and times in both tiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.schema import Struct
from remote.errors import Unreachable
from runtime.deferred import Deferred
from tests.support.producing import batch
from tests.support.tiered_broker import TieredBroker, tiered_config

#: The time of the first record; batches follow each second, records in a batch each millisecond.
T0 = 1_700_000_000_000


def send(broker: TieredBroker, *timestamps: int, version: int = 11, **fields: int) -> Deferred[Struct]:
    """Ask for a time of each partition."""
    wanted = [
        ListOffsetsPartition(partition_index=index, timestamp=each, current_leader_epoch=-1)
        for index, each in enumerate(timestamps)
    ]
    reply = broker.send(
        LIST_OFFSETS, version, **{"replica_id": -1, **fields}, topics=[ListOffsetsTopic(name="t", partitions=wanted)]
    )
    assert reply is not None
    broker.settle()
    return reply


def found(broker: TieredBroker, reply: Deferred[Struct]) -> list[tuple[int, int, int]]:
    """Return code, time and offset of each partition."""
    response = broker.received(LIST_OFFSETS, 11, reply)
    return [(each.error_code, each.timestamp, each.offset) for each in response.topics[0].partitions]


def ask(broker: TieredBroker, timestamp: int, **fields: int) -> tuple[int, int, int]:
    [answer] = found(broker, send(broker, timestamp, **fields))
    return answer


@pytest.mark.parametrize(
    ("special", "offset"), [(-1, 30), (-2, 0), (-4, 27), (-5, 26), (-6, 27)], ids=lambda value: str(value)
)
def test_special_timestamps(broker: TieredBroker, special: int, offset: int) -> None:
    assert ask(broker, special) == (0, -1, offset)


def test_the_largest_timestamp_is_that_of_local_records(broker: TieredBroker) -> None:
    """As in Apache Kafka, which looks at local segments only."""
    assert ask(broker, -3) == (0, T0 + 9002, 29)


def test_nothing_tiered_yet(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    partition = broker.topic(config=tiered_config())
    assert [ask(broker, special)[2] for special in (-4, -5, -6)] == [0, -1, -1], "the log is empty"
    partition.append(batch(), T0)
    assert [ask(broker, special)[2] for special in (-4, -5, -6)] == [0, -1, 0]
    partition.log.local_start_offset = 5
    assert ask(broker, -6)[2] == -1, "some of it is tiered, and the metadata is not loaded yet"
    broker.close()


@pytest.mark.parametrize(
    ("after_ms", "offset", "at_ms"),
    [(0, 0, 0), (1, 1, 1), (3, 3, 1000), (4001, 13, 4001), (8002, 26, 8002), (8003, 27, 9000), (9002, 29, 9002)],
)
def test_times_are_found_in_both_tiers(broker: TieredBroker, after_ms: int, offset: int, at_ms: int) -> None:
    assert ask(broker, T0 + after_ms) == (0, T0 + at_ms, offset)


def test_a_time_after_all_records_is_not_found(broker: TieredBroker) -> None:
    assert ask(broker, T0 + 9003) == (0, -1, -1)


def test_records_before_the_log_start_are_not_found(broker: TieredBroker) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    partition.delete_records(7)
    assert ask(broker, T0) == (0, T0 + 2001, 7)


def test_a_local_time_needs_no_remote_storage(broker: TieredBroker) -> None:
    broker.layout.failure = Unreachable("key", "no route")
    assert ask(broker, T0 + 8500) == (0, T0 + 9000, 27)
    assert not broker.layout.reads


def test_a_failure_is_an_unknown_error(broker: TieredBroker) -> None:
    broker.layout.failure = Unreachable("key", "no route")
    assert ask(broker, T0) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)


@pytest.mark.parametrize(("version", "timeout_ms", "waits_ms"), [(9, 0, 30_000), (10, 0, 30_000), (11, 700, 700)])
def test_storage_that_hangs_times_out(broker: TieredBroker, version: int, timeout_ms: int, waits_ms: int) -> None:
    """v10 has a time-out of the client; 0 and older versions mean remote.list.offsets.request.timeout.ms."""
    broker.threads.held = True
    fields = {"timeout_ms": timeout_ms} if version >= 10 else {}
    reply = send(broker, T0, version=version, **fields)
    broker.advance(waits_ms - 1)
    assert not reply.done
    broker.advance(1)
    assert found(broker, reply) == [(ErrorCode.REQUEST_TIMED_OUT, -1, -1)]


def test_partitions_are_looked_up_beside_each_other(broker: TieredBroker) -> None:
    """One that hangs does not keep the others from their answers, nor do they wait for each other."""
    other = broker.partitions.create("t", b"topic-id-16bytes", 1, tiered_config())
    batch = BatchBuilder()
    batch.append(T0, b"k", b"v")
    other.append(batch.build(), T0)
    broker.threads.held = True
    reply = send(broker, T0, T0, timeout_ms=700)
    assert not reply.done
    broker.threads.release()
    broker.settle()
    assert found(broker, reply) == [(0, T0, 0), (0, T0, 0)]


def test_metadata_that_is_not_loaded_is_awaited(broker: TieredBroker) -> None:
    broker.is_loaded = False
    reply = send(broker, T0)
    broker.advance(200)
    assert not reply.done
    broker.is_loaded = True
    broker.advance(50)
    assert found(broker, reply) == [(0, T0, 0)]


def test_a_client_that_leaves_ends_its_look_up(broker: TieredBroker) -> None:
    broker.threads.held = True
    reply = send(broker, T0)
    reply.cancel()
    broker.threads.release()
    broker.advance(60_000)
    assert len(broker.timers) == 0


def test_large_batches_are_searched_in_a_worker(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    partition = broker.topic(config=tiered_config(segment_bytes=12_000, index_interval_bytes=4096))
    for number in range(4):
        batch = BatchBuilder(codec=Codec.GZIP)
        for record in range(600):
            batch.append(T0 + 1000 * number + record, None, f"{record * 7919}".encode() * 3)
        partition.append(batch.build(), T0)
    broker.tier(partition)
    assert partition.log.local_start_offset > 600
    broker.workers.held = True
    reply = send(broker, T0 + 555)
    assert not reply.done
    broker.workers.release()
    broker.settle()
    assert found(broker, reply) == [(0, T0 + 555, 555)]
    broker.close()


@pytest.mark.parametrize(("special", "offsets"), [(-2, [0]), (-1, [30, 27, 0])])
def test_version_0_knows_the_log_start(broker: TieredBroker, special: int, offsets: list[int]) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=special, max_num_offsets=9)
    response = broker.call(LIST_OFFSETS, 0, replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
    assert list(response.topics[0].partitions[0].old_style_offsets) == offsets
