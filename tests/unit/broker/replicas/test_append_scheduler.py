"""Appends: a batch that a worker decompresses keeps its place, and later batches wait for it."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from broker.replicas.append_scheduler import _Append
from protocol.error_codes import ErrorCode
from protocol.records.batch import TIMESTAMP_TYPE_BIT
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from storage.errors import InvalidRecords
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.held_appends import (
    COMPACTED,
    GZIP,
    LARGE,
    NOW_MS,
    answer,
    answer_is_there,
    batch,
    delete,
    send,
    stored,
)
from tests.support.scale import scaled


def test_small_batches_are_opened_on_the_loop(broker: DataBroker) -> None:
    """They use no worker, and nothing waits."""
    partition = broker.topic(config=GZIP)

    assert answer(send(broker, batch(3))).base_offset == 0
    assert broker.workers.submitted == 0
    assert stored(partition)[0].codec == Codec.GZIP


def test_batches_that_are_stored_unchanged_stay_closed(broker: DataBroker) -> None:
    """However large they are."""
    broker.topic(config=GZIP)

    assert answer(send(broker, batch(LARGE, codec=Codec.GZIP))).base_offset == 0
    assert broker.workers.submitted == 0


@pytest.mark.parametrize(
    ("config", "count", "size_bytes", "in_worker"),
    [(GZIP, 64, 1, 0), (GZIP, 65, 1, 1), (GZIP, 1, 17_000, 1), (COMPACTED, 1, 1_000_000, 0), (COMPACTED, 65, 1, 1)],
)
def test_amount_of_work_decides_where_a_batch_is_opened(
    broker: DataBroker, config: LogConfig, count: int, size_bytes: int, in_worker: int
) -> None:
    """The number of records counts, and the bytes if they must be recompressed. A check of keys alone is fast."""
    broker.topic(config=config)
    send(broker, batch(count, value=bytes(size_bytes)))

    assert broker.workers.submitted == in_worker


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_worker_finds_which_of_many_records_are_late(broker: DataBroker, codec: Codec) -> None:
    """The header says that some are late. The response names each of them (KIP-467)."""
    partition = broker.topic(config=LogConfig(message_timestamp_before_max_ms=1000))
    broker.clock.advance(1001)
    reply = send(broker, batch(LARGE, codec=codec))
    assert not answer_is_there(reply)
    broker.workers.release()

    assert answer(reply).error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer(reply).record_errors] == list(range(LARGE))
    assert (partition.log_end_offset, partition.queue) == (0, None)


def appends_alive() -> list[_Append]:
    """Compare by type() alone: isinstance() asks a proxy for its class, which fails if the proxied object is gone."""
    return [each for each in gc.get_objects() if type(each) is _Append]


@pytest.mark.parametrize("died", [False, True])
@pytest.mark.parametrize("key", [b"k", None])
def test_opened_batch_is_not_kept_in_memory(broker: DataBroker, key: bytes | None, died: bool) -> None:
    """The cyclic garbage collector must not be needed: it runs seldom, and batches are large."""
    broker.topic(config=COMPACTED)
    gc.collect()
    gc.disable()
    try:
        of_others = appends_alive()
        reply = send(broker, batch(LARGE, key=key))
        if died:
            broker.workers.die()
            broker.workers.die()
        else:
            broker.workers.release()
        assert (answer(reply).error_code == ErrorCode.NONE) == (key is not None and not died)
        left = [each for each in appends_alive() if each not in of_others]
        assert not any(each._records or each._opened for each in left)
        assert not left or answer(reply).error_code, "an error's frames may still refer to it"
    finally:
        gc.enable()


@pytest.mark.parametrize("acks", [0, 1])
def test_waiting_requests_are_counted(broker: DataBroker, acks: int) -> None:
    """Until they are done, also if their client has disconnected."""
    broker.topic(config=GZIP)
    first, second = send(broker, batch(LARGE), acks=acks), send(broker, batch(1), acks=acks)
    assert broker.queued_requests == 2
    assert first is not None
    first.cancel()
    assert broker.queued_requests == 2
    broker.workers.release()

    assert second is not None
    assert second.done
    assert broker.queued_requests == 0


def test_appends_wait_for_a_batch_in_a_worker(broker: DataBroker) -> None:
    """Only those to the same partition wait. The bytes that wait are counted."""
    partition = broker.topic(partitions=2, config=GZIP)
    first, second = send(broker, batch(LARGE)), send(broker, batch(2, codec=Codec.GZIP))
    assert answer(send(broker, batch(1), index=1)).base_offset == 0
    assert first is not None
    assert first.mutes
    assert (first.done, partition.log_end_offset) == (False, 0)
    assert broker.held_bytes > 0

    broker.workers.release()

    assert (answer(first).base_offset, answer(second).base_offset) == (0, LARGE)
    assert [header.codec for header in stored(partition)] == [Codec.GZIP] * 2
    assert (broker.held_bytes, partition.queue) == (0, None)


def test_batches_are_appended_in_order_of_arrival(broker: DataBroker) -> None:
    """The order in which pool processes finish does not matter."""
    partition = broker.topic(config=GZIP)
    replies = [send(broker, batch(LARGE + number)) for number in range(3)]
    for place in (2, 1, 0):
        assert partition.log_end_offset == 0
        broker.workers.release(place)

    assert [answer(reply).base_offset for reply in replies] == [0, 100, 201]


def test_delete_records_waits_for_its_turn(broker: DataBroker) -> None:
    """-1 stands for the high watermark at that time."""
    broker.topic(config=GZIP)
    send(broker, batch(LARGE))
    deletion = delete(broker, -1)
    refused = delete(broker, LARGE + 1)
    assert not deletion.done

    broker.workers.release()

    assert deletion.result().topics[0].partitions[0].low_watermark == LARGE
    assert refused.result().topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_coordinators_records_wait_too(broker: DataBroker) -> None:
    """These are transaction markers, which the coordinator writes to clients' partitions."""
    partition = broker.topic(config=GZIP)
    send(broker, batch(LARGE))
    written = broker.appends.append(partition, batch(1), NOW_MS, AppendOrigin.COORDINATOR)
    assert isinstance(written, Deferred)
    broker.workers.release()

    assert written.result().base_offset == LARGE


def test_the_broker_s_time_is_that_of_the_append(broker: DataBroker) -> None:
    """LogAppendTime is not the time of arrival. Otherwise the order of times could differ from that of offsets."""
    partition = broker.topic(config=replace(GZIP, message_timestamp_type="LogAppendTime"))
    reply = send(broker, batch(LARGE))
    broker.clock.advance(500)
    now_ms = broker.clock.now_ms()
    broker.workers.release()

    assert answer(reply).log_append_time_ms == now_ms
    header = stored(partition)[0]
    assert (header.max_timestamp, header.attributes & TIMESTAMP_TYPE_BIT) == (now_ms, TIMESTAMP_TYPE_BIT)


def test_sequences_are_checked_when_the_batch_is_appended(broker: DataBroker) -> None:
    """A batch that is sent twice is in the log once. A skipped sequence is rejected, although a worker opened it."""
    partition = broker.topic(config=GZIP)
    once, again, beyond = (
        send(broker, batch(LARGE, producer_id=7, producer_epoch=0, base_sequence=sequence))
        for sequence in (0, 0, 3 * LARGE)
    )
    for _ in range(3):
        broker.workers.release()

    assert [answer(reply).base_offset for reply in (once, again)] == [0, 0]
    assert answer(beyond).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.log_end_offset == LARGE


def test_a_changed_configuration_opens_a_batch_again(broker: DataBroker) -> None:
    """The configuration at the time of the append counts."""
    partition = broker.topic(config=GZIP)
    reply, later = send(broker, batch(LARGE)), send(broker, batch(1))
    broker.partitions.update_config("t", LogConfig(compression_type="zstd"))
    broker.workers.release()
    assert not answer_is_there(reply)
    broker.workers.release()

    assert (answer(reply).base_offset, answer(later).base_offset) == (0, LARGE)
    assert [header.codec for header in stored(partition)] == [Codec.ZSTD, Codec.ZSTD]


def test_a_configuration_that_opens_batches_reaches_waiters(broker: DataBroker) -> None:
    """A large plain batch waits behind one in a worker. When its turn comes, it is opened too."""
    partition = broker.topic(config=GZIP)
    send(broker, batch(LARGE))
    later = send(broker, batch(LARGE, codec=Codec.GZIP))
    broker.partitions.update_config("t", LogConfig(compression_type="uncompressed"))
    for _ in range(2):
        broker.workers.release()

    assert answer(later).base_offset == LARGE
    assert [header.codec for header in stored(partition)] == [Codec.NONE] * 2


def test_few_bytes_that_grow_to_many_go_to_a_worker(broker: DataBroker) -> None:
    """One record of a kilobyte that decompresses to a megabyte. A worker also checks damaged batches."""
    broker.topic(config=COMPACTED)
    whole = batch(1, value=bytes(1 << 20), codec=Codec.GZIP)
    assert len(whole) < 2000
    reply = send(broker, whole)
    assert broker.workers.submitted == 1
    broker.workers.release()

    assert answer(reply).error_code == 0


def test_flush_messages_counts_when_the_batch_is_appended(broker: DataBroker) -> None:
    """The response waits for the batch's turn, and then for the disk."""
    broker.topic(config=replace(GZIP, flush_messages=1))
    broker.background.held = True
    reply = send(broker, batch(LARGE))
    broker.workers.release()
    assert not answer_is_there(reply)
    broker.background.release()

    assert answer(reply).base_offset == 0


def double(records: bytes, config: LogConfig, now_ms: int) -> bytes:
    """Make each byte a record, and reject zero."""
    if 0 in records:
        raise InvalidRecords("zero")
    builder = BatchBuilder()
    for value in records:
        builder.append(now_ms, config.compression_type.encode(), bytes([value, value]))
    return builder.build()


def test_converted_records_keep_their_place_too(broker: DataBroker) -> None:
    """A few at once, many in a worker, rejected ones as usual. The configuration at the append counts."""
    partition = broker.topic(config=GZIP)
    convert = broker.appends.append_converted
    small = convert(partition, bytes([8] * 20), NOW_MS, double)
    assert not isinstance(small, Deferred)
    assert small.base_offset == 0
    with pytest.raises(InvalidRecords):
        convert(partition, bytes(20), NOW_MS, double)

    large = convert(partition, bytes([2] * 5000), NOW_MS, double)
    squeezed = convert(partition, bytes([1] * 18), NOW_MS, double)
    refused = convert(partition, bytes(5000), NOW_MS, double)
    assert isinstance(large, Deferred)
    assert isinstance(squeezed, Deferred)
    assert isinstance(refused, Deferred)
    broker.partitions.update_config("t", LogConfig(compression_type="zstd"))
    for _ in range(6):
        broker.workers.release()

    assert (large.result().base_offset, squeezed.result().base_offset) == (20, 5020)
    with pytest.raises(InvalidRecords):
        refused.result()
    piece = partition.log.read(20, 1, partition.log_end_offset)
    assert not isinstance(piece, bytes)
    first = next(iter_records(piece.read()))
    assert (first.offset, first.key, first.value) == (20, b"zstd", b"\2\2")


@given(data=st.data())
@hypothesis_settings(max_examples=min(1000, scaled(40)), deadline=None)
def test_waiting_changes_no_result(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Batches, large and small, of idempotent producers or others, and deletions: offsets and responses in order."""
    broker = DataBroker(tmp_path_factory.mktemp("log"))
    broker.workers.held = True
    partition = broker.topic(config=GZIP)
    plain = broker.topic("plain", topic_id=b"id-of-the-others")
    replies: list[tuple[Any, Any]] = []
    for step in data.draw(st.lists(st.sampled_from(["small", "large", "zipped", "delete", "release"]), max_size=12)):
        if step == "release":
            waiting = len(broker.workers._jobs)
            if waiting:
                broker.workers.release(data.draw(st.integers(0, waiting - 1)))
        elif step == "delete":
            replies.append(
                (
                    broker.appends.in_order(partition, lambda: partition.delete_records(-1)),
                    plain.delete_records(-1),
                )
            )
        else:
            records = batch(LARGE if step != "small" else 2, codec=Codec.GZIP if step == "zipped" else Codec.NONE)
            at_once = plain.append(records, NOW_MS).base_offset
            replies.append((broker.appends.append(partition, records, NOW_MS), at_once))
    while broker.workers._jobs:
        broker.workers.release()
    answers = [reply.result() if isinstance(reply, Deferred) else reply for reply, _ in replies]

    assert [each if isinstance(each, int) else each.base_offset for each in answers] == [each for _, each in replies]
    assert (partition.log_start_offset, partition.log_end_offset) == (plain.log_start_offset, plain.log_end_offset)
    assert (partition.queue, broker.held_bytes) == (None, 0)
    broker.close()
