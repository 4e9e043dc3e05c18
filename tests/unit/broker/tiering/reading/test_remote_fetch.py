"""A Fetch of offsets below the local log start offset: what is answered, when, and what is read for it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker.tiering.reading import downloads
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.records.batch import iter_batches
from protocol.records.control import build_end_transaction_marker
from protocol.schema import Struct
from remote.errors import Absent, Unreachable
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from tests.support.fetching import BATCH_BYTES, append, fetch, fetch_one, read_offsets, send, wanted
from tests.support.scale import scaled
from tests.support.tiered_broker import TieredBroker, tiered_config


def answers(broker: TieredBroker, reply: Deferred[Struct], version: int = 12) -> list[Struct]:
    response = broker.received(FETCH, version, reply)
    return [answer for topic in response.responses for answer in topic.partitions]


def test_all_records_come_once_and_in_order(broker: TieredBroker) -> None:
    offsets: list[int] = []
    while len(offsets) < 30:
        answer = fetch_one(broker, len(offsets), max_wait_ms=0)
        assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (0, 30, 0)
        offsets += read_offsets(answer)
    assert offsets == list(range(30))


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_gets_remote_records(broker: TieredBroker, version: int) -> None:
    """The answer begins with the batch that has the offset, and ends with its segment."""
    assert read_offsets(fetch_one(broker, 4, version=version)) == list(range(3, 9))


@pytest.mark.parametrize("version", range(4))
def test_old_versions_get_converted_records(broker: TieredBroker, version: int) -> None:
    broker.workers.held = False
    assert read_offsets(fetch_one(broker, 4, version=version))[:2] == [4, 5] or version < 2


@pytest.mark.parametrize(("limit", "size"), [(1, 391), (400, 400), (800, 800), (5000, 3 * BATCH_BYTES)])
def test_limits_cut_but_the_first_batch_is_whole(broker: TieredBroker, limit: int, size: int) -> None:
    assert len(fetch_one(broker, max_bytes=limit).records) == size


def test_a_cached_run_is_not_read_again(broker: TieredBroker) -> None:
    fetch_one(broker, 1)
    reads = list(broker.layout.reads)
    fetch_one(broker, 2)
    assert broker.layout.reads == reads
    assert reads[0] == (0, 0, 3 * BATCH_BYTES)


def test_the_next_run_is_read_ahead(broker: TieredBroker) -> None:
    """Only when a reader has passed the middle of a run: a seek to its beginning reads nothing more."""
    fetch_one(broker, 0, max_bytes=BATCH_BYTES)
    assert [start for start, *_ in broker.layout.reads] == [0]
    fetch_one(broker, 3, max_bytes=BATCH_BYTES)
    assert [start for start, *_ in broker.layout.reads] == [0, 9]
    fetch_one(broker, 12)
    fetch_one(broker, 24)
    assert [start for start, *_ in broker.layout.reads] == [0, 9, 18]


def test_the_answer_is_empty_after_the_wait_and_the_read_goes_on(broker: TieredBroker) -> None:
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0)), max_wait_ms=10)
    broker.advance(499)
    assert not reply.done
    broker.advance(1)
    [answer] = answers(broker, reply)
    assert (answer.error_code, answer.records, answer.high_watermark) == (0, b"", 30)
    broker.threads.release()
    assert read_offsets(fetch_one(broker, 0)) == list(range(9))
    assert len([start for start, *_ in broker.layout.reads if start == 0]) == 1


def test_one_read_serves_all_that_wait(broker: TieredBroker) -> None:
    broker.threads.held = True
    replies = [send(broker, topics=wanted((0, offset))) for offset in (4, 4, 4)]
    broker.settle()
    broker.threads.release()
    broker.settle()
    assert [read_offsets(*answers(broker, reply))[0] for reply in replies] == [3, 3, 3]
    assert [start for start, *_ in broker.layout.reads if start == 0] == [0]


def test_a_client_that_leaves_does_not_stop_the_read(broker: TieredBroker) -> None:
    broker.threads.held = True
    gone, other = (send(broker, topics=wanted((0, 0))) for _ in range(2))
    gone.cancel()
    broker.threads.release()
    broker.settle()
    assert read_offsets(*answers(broker, other)) == list(range(9))


def test_a_failure_is_answered_after_the_wait(broker: TieredBroker) -> None:
    broker.layout.failure = Unreachable("key", "no route")
    reply = send(broker, topics=wanted((0, 0)), max_wait_ms=0)
    broker.advance(499)
    assert not reply.done
    broker.advance(1)
    [answer] = answers(broker, reply)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    broker.layout.failure = None
    assert read_offsets(fetch_one(broker, 0)) == list(range(9))


def test_a_segment_that_expires_while_it_is_read(broker: TieredBroker) -> None:
    """The log start has moved before the objects are deleted, and is what the consumer has to know."""
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0)))
    partition.delete_records(9)
    broker.layout.failure = Absent("key", "no such object")
    broker.threads.release()
    broker.settle()
    assert [answer.error_code for answer in answers(broker, reply)] == [ErrorCode.OFFSET_OUT_OF_RANGE]


@pytest.mark.parametrize("cache_bytes", [1, 2500, 1 << 20])
@pytest.mark.parametrize("run_bytes", [70, 500, 900, 1 << 20])
def test_any_read_is_a_piece_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_bytes: int, run_bytes: int
) -> None:
    """Whatever the sizes of ranges and of the cache are, and wherever a reader seeks."""
    monkeypatch.setattr(downloads, "RUN_BYTES", run_bytes)
    broker = TieredBroker(tmp_path, {"pybroker.remote.cache.bytes": cache_bytes})
    partition = broker.topic(config=tiered_config(segment_bytes=2600))
    for number in range(40):
        append(broker, count=1 + number % 5)
    whole = b"".join(Path(each.log.path).read_bytes()[: each.size_bytes] for each in partition.log.segments)
    start_of: dict[int, int] = {}
    for position, header in iter_batches(whole):
        start_of |= dict.fromkeys(range(header.base_offset, header.last_offset + 1), position)
    broker.tier(partition)
    chance = Random(run_bytes + cache_bytes)
    end = partition.log.log_end_offset
    for _ in range(scaled(60)):
        offset, limit = chance.randrange(end), chance.choice((1, 400, 800, 5000))
        found = bytes(fetch_one(broker, offset, max_bytes=limit).records)
        assert found == whole[start_of[offset] : start_of[offset] + len(found)]
        assert len(found) >= min(limit, 100)
    broker.close()


def test_a_fetch_reads_once_until_its_answer(broker: TieredBroker) -> None:
    """A store that fails at once is not asked again and again during the wait."""
    broker.layout.failure = Unreachable("key", "no route")
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0)))
    for _ in range(5):
        broker.threads.release()
        broker.advance(50)
    assert not reply.done
    assert len(broker.layout.reads) == 1
    broker.advance(500)
    assert [answer.error_code for answer in answers(broker, reply)] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_failure_beside_records_is_answered_at_once(broker: TieredBroker) -> None:
    broker.layout.failure = Unreachable("key", "no route")
    append_other(broker)
    reply = send(broker, topics=wanted((0, 0), (1, 0)), min_bytes=1 << 20)
    codes = {answer.partition_index: (answer.error_code, len(answer.records)) for answer in answers(broker, reply)}
    assert codes == {0: (-1, 0), 1: (0, BATCH_BYTES)}


def append_other(broker: TieredBroker) -> None:
    broker.partitions.create("t", b"topic-id-16bytes", 1, tiered_config())
    append(broker, index=1)


def test_damaged_bytes_are_read_again_and_then_an_error(broker: TieredBroker) -> None:
    times = 1

    def spoil(data: bytes) -> bytes:
        nonlocal times
        times -= 1
        return data if times < 0 else data[:100] + bytes([data[100] ^ 1]) + data[101:]

    broker.layout.change = spoil
    assert read_offsets(fetch_one(broker, 0, max_bytes=1)) == [0, 1, 2]
    times = 2
    answer = fetch_one(broker, 9, max_bytes=1)
    assert (answer.error_code, answer.records) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")


def test_an_offset_without_metadata_is_out_of_range(broker: TieredBroker) -> None:
    broker.remote_logs.forget(broker.remote_logs.get(b"topic-id-16bytes", 0))
    assert fetch_one(broker, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_metadata_that_is_not_loaded_makes_fetches_wait(broker: TieredBroker) -> None:
    broker.is_loaded = False
    answer = fetch_one(broker, 0)
    assert (answer.error_code, answer.records) == (0, b"")
    reply = send(broker, topics=wanted((0, 0)))
    broker.is_loaded = True
    broker.advance(50)
    assert read_offsets(*answers(broker, reply)) == list(range(9))


def test_offsets_before_the_log_start_are_out_of_range(broker: TieredBroker) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    partition.delete_records(5)
    assert fetch_one(broker, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_offsets(fetch_one(broker, 5)) == list(range(3, 9))


def test_a_remote_part_takes_its_whole_limit_from_the_total(broker: TieredBroker) -> None:
    append_other(broker)
    sizes = [
        len(answer.records)
        for answer in fetch(broker, topics=wanted((0, 0), (1, 0), max_bytes=2000), max_bytes=2000)
        .responses[0]
        .partitions
    ]
    assert sizes == [3 * BATCH_BYTES, 0]
    sizes = [
        len(answer.records)
        for answer in fetch(broker, topics=wanted((0, 0), (1, 0), max_bytes=2000), max_bytes=9000)
        .responses[0]
        .partitions
    ]
    assert sizes == [3 * BATCH_BYTES, BATCH_BYTES]


def test_bytes_are_counted_as_they_are_sent(broker: TieredBroker) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    fetch_one(broker, 0)
    assert partition.log.fetched_bytes == 3 * BATCH_BYTES


def test_a_partition_that_is_deleted_ends_the_wait(broker: TieredBroker) -> None:
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0)))
    broker.partitions.delete("t")
    broker.settle()
    [answer] = answers(broker, reply)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_too_many_reads_wait_for_their_turn(broker: TieredBroker) -> None:
    """The answer is empty, not an error, and a later fetch gets the records."""
    broker.config.get_int = {**{key: broker.config.get_int(key) for key in _KEYS}, **_NO_ROOM}.__getitem__
    broker.threads.held = True
    replies = [send(broker, topics=wanted((0, offset))) for offset in (0, 9)]
    broker.advance(500)
    assert [[answer.error_code for answer in answers(broker, reply)] for reply in replies] == [[0], [0]]
    broker.threads.held = False
    broker.threads.release()
    assert read_offsets(fetch_one(broker, 9)) == list(range(9, 18))


_NO_ROOM = {"remote.log.reader.threads": 1, "remote.log.reader.max.pending.tasks": 0}
_KEYS = (
    "fetch.max.bytes",
    "remote.fetch.max.wait.ms",
    "pybroker.remote.cache.bytes",
)


def test_a_quota_delays_reads(broker: TieredBroker) -> None:
    broker.quota.bytes_per_second = 100
    fetch_one(broker, 0, max_bytes=1)
    reply = send(broker, topics=wanted((0, 9)))
    broker.advance(500)
    assert [answer.records for answer in answers(broker, reply)] == [b""]
    broker.advance(12_000)
    assert read_offsets(fetch_one(broker, 9)) == list(range(9, 18))


def test_sessions_leave_out_parts_without_news(broker: TieredBroker) -> None:
    """A remote part that is empty after the wait is no news; once it is read, it is."""
    first = fetch(broker, topics=wanted((0, 30)), session_epoch=0)
    broker.threads.held = True
    ask = {"session_id": first.session_id, "topics": wanted((0, 0))}
    reply = send(broker, **ask, session_epoch=1)
    broker.advance(500)
    assert answers(broker, reply) == []
    broker.threads.release()
    reply = send(broker, **ask, session_epoch=2)
    assert [read_offsets(answer) for answer in answers(broker, reply)] == [list(range(9))]


def test_local_records_come_with_remote_ones(broker: TieredBroker) -> None:
    """As in Apache Kafka they wait together."""
    append_other(broker)
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0), (1, 0)))
    assert not reply.done
    broker.threads.release()
    broker.settle()
    assert [read_offsets(answer) for answer in answers(broker, reply)] == [list(range(9)), [0, 1, 2]]


def test_old_clients_pass_remote_batches_without_records_for_them(broker: TieredBroker) -> None:
    """Markers of transactions are not for them: the read goes on behind, in remote storage, too."""
    broker.workers.held = False
    partition = broker.topic("old", topic_id=b"another-16-bytes", config=tiered_config(segment_bytes=400))
    now_ms = broker.clock.now_ms()
    for producer_id in (7, 8):
        marker = build_end_transaction_marker(producer_id, 0, commit=True, coordinator_epoch=0, timestamp_ms=now_ms)
        partition.append(marker, now_ms, AppendOrigin.COORDINATOR)
    append(broker, topic="old")
    append(broker, topic="old")
    broker.tier(partition)
    found: list[int] = []
    for _ in range(3):
        found = read_offsets(fetch_one(broker, 0, version=2, topic="old"))
        if found:
            break
    assert found == [2, 3, 4]


def test_the_broker_stops_while_a_fetch_waits(broker: TieredBroker) -> None:
    broker.threads.held = True
    reply = send(broker, topics=wanted((0, 0)))
    broker.purgatory.expire_all()
    assert [answer.error_code for answer in answers(broker, reply)] == [0]
