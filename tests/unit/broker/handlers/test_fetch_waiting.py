"""Fetch: what a request waits for, and what ends the wait."""

import gc
from collections.abc import Callable

import pytest

from broker.replicas.fetch_attempt import FetchAttempt
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.records.control import build_end_transaction_marker
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import DataBroker
from tests.support.fetching import BATCH_BYTES, append, read_offsets, send, wanted


def test_at_the_log_end_a_fetch_waits_for_an_append(filled: DataBroker) -> None:
    reply = send(filled, topics=wanted((0, 15)))
    filled.settle()
    assert not reply.done
    append(filled)
    assert not reply.done
    filled.settle()
    assert reply.done

    assert read_offsets(filled.received(FETCH, 12, reply).responses[0].partitions[0]) == [15, 16, 17]
    assert len(filled.purgatory) == 0


def test_appends_to_other_partitions_wake_no_fetch(filled: DataBroker) -> None:
    reply = send(filled, topics=wanted((0, 15)))
    append(filled, index=1)
    filled.settle()

    assert not reply.done


def test_after_max_wait_the_response_is_empty(filled: DataBroker) -> None:
    reply = send(filled, max_wait_ms=300, topics=wanted((0, 15)))
    filled.advance(299)
    assert not reply.done
    filled.advance(1)
    answer = filled.received(FETCH, 12, reply).responses[0].partitions[0]

    assert (answer.error_code, answer.high_watermark, len(answer.records)) == (0, 15, 0)


def test_min_bytes_are_waited_for(filled: DataBroker) -> None:
    reply = send(filled, min_bytes=1000, topics=wanted((0, 12), (1, 0)))
    append(filled, index=1)
    filled.settle()
    assert not reply.done
    append(filled)
    filled.settle()
    partitions = filled.received(FETCH, 12, reply).responses[0].partitions

    assert [len(answer.records) for answer in partitions] == [2 * BATCH_BYTES, BATCH_BYTES]


def test_min_bytes_is_limited_by_max_bytes(filled: DataBroker) -> None:
    assert send(filled, min_bytes=10_000, max_bytes=300, topics=wanted((0, 0))).done


@pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"max_wait_ms": -1}, {"min_bytes": 0}])
def test_without_max_wait_a_fetch_does_not_wait(filled: DataBroker, fields: dict[str, int]) -> None:
    assert send(filled, topics=wanted((0, 15)), **fields).done


def test_a_fetch_of_only_unknown_partitions_does_not_wait(filled: DataBroker) -> None:
    """Beside a readable partition an unknown one waits too: Kafka answers both after the wait."""
    assert send(filled, topics=[]).done
    assert send(filled, topics=wanted((9, 0))).done
    assert not send(filled, topics=wanted((0, 15), (9, 0))).done


def test_unknown_partitions_come_last(filled: DataBroker) -> None:
    """As in Kafka. The others come in the order of the request."""
    reply = send(filled, topics=wanted((9, 0), (1, 0), (0, 0)), min_bytes=0)
    partitions = filled.received(FETCH, 12, reply).responses[0].partitions
    assert [each.partition_index for each in partitions] == [1, 0, 9]


@pytest.mark.parametrize("min_bytes", [1, 5000])
@pytest.mark.parametrize("others", [[], ["u"]])
def test_a_deleted_topic_ends_the_wait(filled: DataBroker, min_bytes: int, others: list[str]) -> None:
    """Other topics of the request do not matter. A topic that was unknown from the start does not end the wait."""
    topics = wanted((0, 15))
    for name in others:
        filled.topic(name)
        topics += wanted((0, 0), topic=name)
    reply = send(filled, topics=topics, min_bytes=min_bytes)
    filled.partitions.delete("t")
    filled.settle()
    codes = {each.topic: each.partitions[0].error_code for each in filled.received(FETCH, 12, reply).responses}
    assert codes == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **dict.fromkeys(others, ErrorCode.NONE)}
    assert len(filled.purgatory) == 0


def test_an_abandoned_wait_leaves_no_garbage_cycle(filled: DataBroker) -> None:
    """The garbage collector runs seldom, and consumers often close their connection during such a request."""
    reply = send(filled, topics=wanted((0, 15)))
    gc.collect()
    gc.disable()
    try:
        reply.cancel()
        del reply
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_client_that_disconnects_waits_no_more(filled: DataBroker) -> None:
    reply = send(filled, topics=wanted((0, 15)))
    reply.cancel()

    assert len(filled.purgatory) == 0
    append(filled)
    filled.settle()


def test_committed_readers_are_not_woken_by_open_transactions(broker: DataBroker) -> None:
    partition = broker.topic()
    reply = send(broker, topics=wanted((0, 0)), isolation_level=1)
    append(broker, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    broker.settle()
    assert not reply.done
    marker = build_end_transaction_marker(7, 0, commit=True, coordinator_epoch=0, timestamp_ms=broker.clock.now_ms())
    partition.append(marker, broker.clock.now_ms(), AppendOrigin.COORDINATOR)
    broker.settle()

    assert read_offsets(broker.received(FETCH, 12, reply).responses[0].partitions[0]) == [0, 1, 2, 3]


def test_cold_pages_are_read_ahead_by_a_thread(filled: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop never waits for a disk, whether the fetch is answered at once or after a wait."""
    held: list[Deferred[None]] = []

    def offload(function: Callable[..., None], *args: object) -> Deferred[None]:
        function(*args)
        held.append(Deferred())
        return held[-1]

    filled.offload = offload  # type: ignore[assignment]
    monkeypatch.setattr(FetchSlice, "is_cold", lambda self, now_ms: True)
    at_once = send(filled, topics=wanted((0, 0)))
    parked = send(filled, topics=wanted((0, 15)))
    append(filled)
    filled.settle()
    for reply, offsets in ((at_once, list(range(15))), (parked, [15, 16, 17])):
        assert not reply.done
        held.pop(0).resolve(None)
        assert read_offsets(filled.received(FETCH, 12, reply).responses[0].partitions[0]) == offsets


def test_a_failure_after_a_wait_is_an_error(filled: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both when records arrive and when the time is over. Without a response the client would wait for ever."""

    def fail(*args: object) -> None:
        raise RuntimeError("unforeseen")

    woken = send(filled, topics=wanted((0, 15)))
    timed_out = send(filled, max_wait_ms=300, topics=wanted((1, 0)))
    monkeypatch.setattr(FetchAttempt, "response", fail)
    append(filled)
    filled.settle()
    filled.advance(300)

    for reply in (woken, timed_out):
        with pytest.raises(RuntimeError, match="unforeseen"):
            reply.result()
