"""Fetch in the versions that Kafka 4 removed: batches are converted to messages."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.batch import entry_at
from protocol.records.compression import Codec
from protocol.records.control import build_end_transaction_marker
from protocol.records.down_conversion import CUT_OFF_MESSAGE
from protocol.records.entries import iter_records
from protocol.records.record import Record
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from storage.errors import LogOffline
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.logs import T0, batch
from tests.support.old_clients import OLD_CODECS, fetch, read


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_batches_are_fetched_as_messages(broker: DataBroker, version: int, magic: int, codec: Codec) -> None:
    """Magic 0 in v0 and v1, magic 1 in v2 and v3 (S7.1)."""
    broker.topic()
    broker.partitions.get("t", 0).append(batch(b"a", b"b", codec=codec, timestamp=T0), T0)

    answer = fetch(broker, version)

    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 2)
    assert entry_at(answer.records, 0)[2] == magic
    times = [T0, T0 + 1] if magic else [-1, -1]
    assert list(iter_records(answer.records)) == [Record(0, times[0], None, b"a"), Record(1, times[1], None, b"b")]


def test_batches_are_fetched_unchanged_since_v4(broker: DataBroker) -> None:
    broker.topic()
    broker.partitions.get("t", 0).append(batch(b"a"), T0)

    assert entry_at(fetch(broker, 4).records, 0)[2] == 2


def test_message_format_version_applies_to_messages(broker: DataBroker) -> None:
    """A topic with format 0.9 has magic 0 for Fetch v2 and v3 too. No client gets a magic newer than its version."""
    for release, expected in (("0.9.0", [0, 0, 0]), ("0.10.2-IV0", [0, 1, 1]), ("3.0-IV1", [0, 1, 1])):
        name = f"t{release}"
        partition = broker.topic(
            name, topic_id=name.encode().ljust(16), config=LogConfig(message_format_version=release)
        )
        partition.append(batch(b"a"), T0)
        found = []
        for version in (1, 2, 3):
            topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
            data = broker.call(FETCH, version, max_wait_ms=0, topics=topics).responses[0].partitions[0]
            found.append(entry_at(data.records, 0)[2])
        assert found == expected


def test_large_responses_are_converted_in_a_worker(broker: DataBroker) -> None:
    """Small ones are converted at once, unless they decompress to many bytes."""
    partition = broker.topic()
    partition.append(batch(b"a"), T0)
    fetch(broker, 2)
    assert broker.workers.submitted == 0

    partition.append(batch(*[b"x" * 100] * 100), T0)
    assert len(read(broker, 2, 1)) == 100
    assert broker.workers.submitted == 1
    partition.append(batch(bytes(500_000), codec=Codec.GZIP), T0)
    assert len(read(broker, 2, 101)) == 1
    assert broker.workers.submitted == 2


def test_control_batches_are_skipped(broker: DataBroker) -> None:
    """A consumer at a control batch gets the records behind it. At the log end it gets nothing, and no error."""
    partition = broker.topic()
    partition.append(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), T0)
    end = build_end_transaction_marker(7, 0, commit=False, coordinator_epoch=0, timestamp_ms=T0)
    partition.append(end, T0, AppendOrigin.COORDINATOR)
    assert [record.value for record in read(broker, 2)] == [b"a"]
    assert read(broker, 2, 1) == []

    partition.append(batch(b"b"), T0)
    assert [(record.offset, record.value) for record in read(broker, 2, 1)] == [(2, b"b")]
    found = fetch(broker, 2, 1, max_bytes=90)
    assert [record.offset for record in iter_records(found.records)] == [2]


def test_segments_without_visible_records_are_skipped(broker: DataBroker) -> None:
    """Each segment is read and converted by itself."""
    partition = broker.topic(config=LogConfig(segment_ms=1))
    for number in range(400):
        now_ms = T0 + 10 * number
        end = build_end_transaction_marker(7, 0, commit=False, coordinator_epoch=0, timestamp_ms=now_ms)
        partition.append(end, now_ms, AppendOrigin.COORDINATOR)
    partition.append(batch(b"b"), T0 + 5000)
    assert len(partition.log.segments) > 300

    assert [(record.offset, record.value) for record in read(broker, 2)] == [(400, b"b")]


def ask(broker: DataBroker, version: int = 2, partitions: int = 1, max_bytes: int = 1 << 20) -> Deferred[Struct]:
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=max_bytes) for index in range(partitions)
    ]
    topics = [FetchTopic(topic="t", partitions=wanted)]
    asked = broker.send(FETCH, version, max_wait_ms=0, min_bytes=1, topics=topics)
    assert asked is not None
    return asked


def test_many_old_consumers_wait_for_each_other(broker: DataBroker) -> None:
    """Few of them have records in memory. The other requests are queued until they are answered."""
    broker.topic().append(batch(*[b"x" * 100] * 100), T0)
    broker.workers.held = True
    asked = [ask(broker) for _ in range(50)]
    assert broker.workers.submitted == 2
    assert (broker.queued_requests, len(broker.conversions.waiting)) == (50, 48)
    broker.workers.held = False
    broker.workers.release()
    broker.workers.release()
    for each in asked:
        [partition] = broker.received(FETCH, 2, each).responses[0].partitions
        assert len(list(iter_records(partition.records))) == 100
    assert (broker.queued_requests, broker.workers.submitted) == (0, 50)
    assert broker.conversions._room == 2


def test_old_consumers_that_disconnect_leave_the_queue(broker: DataBroker) -> None:
    """A conversion that runs is completed. One that waits never starts."""
    broker.topic().append(batch(*[b"x" * 100] * 100), T0)
    broker.workers.held = True
    asked = [ask(broker) for _ in range(5)]
    for each in asked[:4]:
        each.cancel()
    assert (broker.queued_requests, len(broker.conversions.waiting)) == (3, 1)
    for _ in range(3):
        broker.workers.release()
    assert asked[4].done
    assert (broker.queued_requests, broker.workers.submitted) == (0, 3)


def test_a_conversion_whose_worker_dies_is_retried(broker: DataBroker) -> None:
    """It is retried once. If the second worker dies too, the conversion fails."""
    broker.topic().append(batch(*[b"x" * 100] * 100), T0)
    broker.workers.held = True
    asked = ask(broker)
    broker.workers.die()
    broker.workers.release()
    [partition] = broker.received(FETCH, 2, asked).responses[0].partitions
    assert len(list(iter_records(partition.records))) == 100

    asked = ask(broker)
    broker.workers.die()
    broker.workers.die()
    [partition] = broker.received(FETCH, 2, asked).responses[0].partitions
    assert (partition.error_code, partition.records) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    assert (broker.queued_requests, broker.conversions._room) == (0, 2)


@pytest.mark.parametrize("version", [2, 3])
def test_a_response_of_messages_is_bounded(broker: DataBroker, version: int) -> None:
    """1 MiB for all partitions. Before v3 the broker rotates them; from v3 on consumers do that themselves."""
    broker.topic(partitions=3)
    for index in range(3):
        partition = broker.partitions.get("t", index)
        assert partition is not None
        partition.append(batch(*[b"x" * 1000] * 700), T0)
        partition.append(batch(*[b"x" * 1000] * 700), T0)
    seen = set()
    for _ in range(60):
        found = broker.received(FETCH, version, ask(broker, version, 3, 2 << 20)).responses[0].partitions
        assert [each.partition_index for each in found] == [0, 1, 2]
        assert not any(each.error_code for each in found)
        assert 1 << 19 < sum(len(each.records) for each in found) <= 3 << 19
        seen |= {each.partition_index for each in found if len(each.records)}
    assert seen == ({0, 1, 2} if version < 3 else {0})


def test_a_batch_beyond_the_bound_is_whole(broker: DataBroker) -> None:
    """If the batch were only reported as larger than the limit, the consumer would give up."""
    broker.topic(config=LogConfig(max_message_bytes=4 << 20)).append(batch(bytes(3 << 20)), T0)
    for version in (2, 3):
        assert len(fetch(broker, version, max_bytes=4 << 20).records) > 3 << 20
    assert fetch(broker, 2, max_bytes=2 << 20).records == CUT_OFF_MESSAGE


def test_zstd_is_rejected(broker: DataBroker) -> None:
    """No message could hold it. Topics with compression.type=zstd are rejected too, whatever they hold (KIP-110)."""
    broker.topic().append(batch(b"a" * 100, codec=Codec.ZSTD), T0)
    answer = fetch(broker, 3)
    assert (answer.error_code, answer.high_watermark, len(answer.records)) == (
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        -1,
        0,
    )
    assert fetch(broker, 4).error_code == ErrorCode.NONE

    partition = broker.partitions.get("t", 0)
    partition.log.config = LogConfig(compression_type="zstd")
    partition.append(batch(b"a"), T0)
    assert fetch(broker, 3, 1).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert fetch(broker, 4, 1).error_code == ErrorCode.NONE


def test_conversion_may_be_forbidden(broker: DataBroker) -> None:
    """message.downconversion.enable=false."""
    broker.topic(config=LogConfig(message_downconversion_enable=False)).append(batch(b"a"), T0)

    assert fetch(broker, 3).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert fetch(broker, 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_batch_over_the_limit_is_a_truncated_message(broker: DataBroker, version: int) -> None:
    """At once. Kafka 3.9 sends nothing, and its consumers wait for ever. Older releases did the same as this broker."""
    broker.topic().append(batch(b"a" * 500), T0)

    assert fetch(broker, version, max_bytes=100, wait_ms=5000).records == CUT_OFF_MESSAGE
    assert fetch(broker, version, max_bytes=0).records == b""
    assert len(list(iter_records(fetch(broker, 3, max_bytes=100).records))) == 1


def test_one_message_below_the_fetch_offset_is_not_sent(broker: DataBroker) -> None:
    broker.topic().append(batch(b"a", b"b", b"c"), T0)

    assert [record.offset for record in read(broker, 2, 1)] == [1, 2]


def test_waiting_fetches_are_converted_too(broker: DataBroker) -> None:
    partition = broker.topic()
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
    reply = broker.send(FETCH, 2, max_wait_ms=500, min_bytes=1, topics=topics)
    assert reply is not None
    broker.settle()
    assert not reply.done

    partition.append(batch(b"a"), T0)
    partition._wake(partition)
    broker.settle()

    data = broker.received(FETCH, 2, reply).responses[0].partitions[0]
    assert entry_at(data.records, 0)[2] == 1


def test_old_consumers_see_a_failed_disk_as_a_new_leader(broker: DataBroker) -> None:
    """Clients up to v5 know no better code, and would not refresh their metadata otherwise (KIP-112)."""
    partition = broker.topic()
    partition.append(batch(b"a"), T0)
    partition.log.directory.fail(OSError(5, "Input/output error"))

    for version in (0, 3, 5):
        assert fetch(broker, version).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(broker, 6).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_that_fails_during_a_conversion_is_an_error(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails while more records are read behind a control batch."""
    partition = broker.topic()
    partition.append(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), T0)
    end = build_end_transaction_marker(7, 0, commit=True, coordinator_epoch=0, timestamp_ms=T0)
    partition.append(end, T0, AppendOrigin.COORDINATOR)
    partition.append(batch(b"b"), T0)
    read_once = partition.log.read

    def fails_later(offset: int, *arguments: object) -> object:
        if offset > 1:
            raise LogOffline("/data", "gone")
        return read_once(offset, *arguments)

    monkeypatch.setattr(type(partition.log), "read", lambda log, *arguments: fails_later(*arguments))
    answer = fetch(broker, 2, 1, max_bytes=90)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
