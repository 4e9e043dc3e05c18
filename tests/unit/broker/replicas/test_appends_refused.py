"""Appends in workers that fail: records are rejected, a worker or a disk fails, or the client disconnects."""

from __future__ import annotations

from typing import Any

import pytest

from broker.requests.dispatcher import CloseConnection
from protocol.error_codes import ErrorCode
from protocol.records.compression import Codec
from runtime.deferred import Deferred
from runtime.process_pool import PoolClosed
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.held_appends import COMPACTED, GZIP, LARGE, answer, batch, delete, send


def test_records_rejected_in_a_worker_are_reported_as_usual(broker: DataBroker) -> None:
    """KIP-467 names each record without a key. None is in the log, and the next batch gets the offset."""
    partition = broker.topic(config=COMPACTED)
    refused, taken = send(broker, batch(LARGE, key=None)), send(broker, batch(1))
    broker.workers.release()

    assert answer(refused).error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer(refused).record_errors] == list(range(LARGE))
    assert "t-0" in answer(refused).record_errors[0].batch_index_error_message
    assert answer(taken).base_offset == 0
    assert partition.queue is None


def test_a_batch_that_grows_too_large_is_rejected(broker: DataBroker) -> None:
    """max.message.bytes limits the stored size."""
    broker.topic(config=LogConfig(compression_type="uncompressed", max_message_bytes=20_000))
    reply = send(broker, batch(LARGE, value=bytes(1000), codec=Codec.GZIP))
    broker.workers.release()

    assert answer(reply).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_whose_worker_dies_is_retried_once(broker: DataBroker) -> None:
    """Then the batch is rejected, and the batches behind it continue."""
    broker.topic(config=GZIP)
    saved, lost, last = (send(broker, batch(LARGE)) for _ in range(3))
    broker.workers.die()  # of the first, which is opened again behind the others
    broker.workers.die()  # of the second
    broker.workers.release()  # the last
    broker.workers.release()  # the first
    broker.workers.die()  # the second again

    assert [answer(reply).base_offset for reply in (saved, last)] == [0, LARGE]
    assert answer(lost).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_closed_workers_reject_at_once(broker: DataBroker) -> None:
    """The broker stops, and no request is left waiting."""

    def submit(*_: object) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        deferred.fail(PoolClosed("worker"))
        return deferred

    partition = broker.topic(config=GZIP)
    broker.workers.submit = submit  # type: ignore[method-assign]

    assert answer(send(broker, batch(LARGE))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer(send(broker, batch(1))).base_offset == 0
    assert partition.queue is None


def test_a_deleted_topic_takes_no_waiting_appends(broker: DataBroker) -> None:
    """The producer gets an error. A new topic of the same name is another topic."""
    broker.topic(config=GZIP)
    reply, behind, deletion = send(broker, batch(LARGE)), send(broker, batch(1)), delete(broker, -1)
    broker.partitions.delete("t")
    recreated = broker.topic(topic_id=b"another-topic-id", config=GZIP)
    broker.workers.release()

    assert answer(reply).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer(behind).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert deletion.result().topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert recreated.log_end_offset == 0


def test_a_directory_that_fails_meanwhile_is_reported(broker: DataBroker) -> None:
    """The error is the same as for requests that arrive after the failure."""
    partition = broker.topic(config=GZIP)
    reply = send(broker, batch(LARGE))
    partition.log.directory.fail("broken")
    broker.partitions.take_offline(broker.logs.directories[0])
    broker.workers.release()

    assert answer(reply).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_batch_of_a_disconnected_producer_is_appended(broker: DataBroker) -> None:
    """Its request had arrived in full."""
    partition = broker.topic(config=GZIP)
    reply = send(broker, batch(LARGE))
    assert reply is not None
    reply.cancel()
    broker.workers.release()

    assert partition.log_end_offset == LARGE


def test_acks_0_has_no_response_and_a_failure_disconnects(broker: DataBroker) -> None:
    """The same as without a wait. Later requests of the connection wait too."""
    broker.topic(config=COMPACTED)
    taken, refused = send(broker, batch(LARGE), acks=0), send(broker, batch(LARGE, key=None), acks=0)
    assert taken is not None
    assert refused is not None
    assert taken.mutes
    broker.workers.release()
    broker.workers.release()

    assert taken.result() is None
    with pytest.raises(CloseConnection):
        refused.result()
