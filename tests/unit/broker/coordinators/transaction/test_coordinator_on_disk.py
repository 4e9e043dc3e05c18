"""Transactions with flush.messages: the order in which their steps reach the disk makes them safe at a power loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.transaction.ending import RETRY_MS
from metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import END_TXN
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS, WritableTxnMarker, WritableTxnMarkerTopic
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from storage.log_config import LogConfig
from tests.support.data_client import batch
from tests.support.disk_doubles.slow_disk import SlowDisk
from tests.support.offered import handler_of
from tests.support.txn_broker import TxnBroker

T0 = ("t", 0)
of_x: dict[str, Any] = {"producer_id": 0, "producer_epoch": 0}  # the first producer id


def made(folder: Path, settings: dict[str, str]) -> TxnBroker:
    broker = TxnBroker(folder, settings)
    broker.create("t", 1)
    assert broker.client.init("x") == "NONE P0 0"
    return broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    broker = made(tmp_path, {"log.flush.interval.messages": "1"})
    yield broker
    broker.close()


def send(broker: TxnBroker, api: Api, version: int, **fields: Any) -> Deferred[Struct]:
    """Send a request, whose buffer is overwritten once its handler returns."""
    data = bytearray(api.request.encode(version, api.request(**fields)))
    request, _ = api.request.decode(version, memoryview(data))
    reply = handler_of(broker, api)(broker.context(api, version), request)
    data[:] = bytes(len(data))
    assert reply is not None
    return reply if isinstance(reply, Deferred) else Deferred.resolved(reply)


def write(broker: TxnBroker, value: bytes = b"a", version: int = 12) -> Deferred[Struct]:
    records = batch(value, timestamp=broker.clock.now_ms(), **of_x, base_sequence=0, transactional=True)
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    return send(broker, PRODUCE, version, transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=topics)


def commit_offset(broker: TxnBroker) -> Deferred[Struct]:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
    return send(broker, TXN_OFFSET_COMMIT, 5, transactional_id="x", group_id="g", **of_x, topics=topics)


def end(broker: TxnBroker, committed: bool = True) -> Deferred[Struct]:
    return send(broker, END_TXN, 5, transactional_id="x", **of_x, committed=committed)


def produced(reply: Deferred[Struct]) -> str:
    found = reply.result().responses[0].partition_responses[0]
    return f"{ErrorCode(found.error_code).name} {found.base_offset}"


def offset_committed(reply: Deferred[Struct]) -> str:
    return ErrorCode(reply.result().topics[0].partitions[0].error_code).name


# -- partitions join before their records -----------------------------------------------------------------------------


def test_records_follow_the_flushed_join(broker: TxnBroker):
    """In another order, a power loss could leave an open transaction that its coordinator does not know."""
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = write(broker)
    broker.advance(1_000)
    assert not reply.done
    assert broker.records(*T0) == []
    slow.release()
    assert produced(reply) == "NONE 0"
    assert [record.value for record in broker.records(*T0)] == [b"a"]


def test_joined_partition_does_not_wait(broker: TxnBroker):
    write(broker)
    broker.settle()
    SlowDisk(broker, TRANSACTION_STATE)
    records = batch(b"b", timestamp=broker.clock.now_ms(), **of_x, base_sequence=1, transactional=True)
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    reply = send(broker, PRODUCE, 12, transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=topics)
    broker.settle()
    assert produced(reply) == "NONE 1"


def test_records_of_a_disconnected_client_are_appended(broker: TxnBroker):
    """Their partition has joined by then."""
    slow = SlowDisk(broker, TRANSACTION_STATE)
    write(broker).cancel()
    slow.release()
    assert [record.value for record in broker.records(*T0)] == [b"a"]


def test_records_are_rejected_if_the_join_is_not_flushed(broker: TxnBroker):
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = write(broker)
    slow.fail()
    assert produced(reply) == "NOT_ENOUGH_REPLICAS -1"
    assert broker.records(*T0) == []


def test_records_of_an_ended_transaction_are_rejected(broker: TxnBroker):
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = write(broker)
    end(broker, committed=False)  # by another connection
    slow.release()
    assert produced(reply) == "CONCURRENT_TRANSACTIONS -1"
    assert broker.client.describe("x").startswith("CompleteAbort")
    assert produced(write(broker)) == "INVALID_PRODUCER_EPOCH -1"
    assert broker.partition(*T0).last_stable_offset == broker.partition(*T0).log_end_offset


def test_offsets_follow_the_flushed_join_of_their_group(broker: TxnBroker):
    broker.client.wait_for_group("g", T0)
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = commit_offset(broker)
    broker.settle()
    assert not reply.done
    assert all(not each.log_end_offset for each in broker.partitions.of_topic(CONSUMER_OFFSETS).values())
    slow.release()
    assert offset_committed(reply) == "NONE"
    assert broker.client.committed_offset("g", T0, stable=True) == "UNSTABLE_OFFSET_COMMIT -1"


def test_offsets_are_rejected_if_the_join_is_not_flushed(broker: TxnBroker):
    broker.client.wait_for_group("g", T0)
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = commit_offset(broker)
    slow.fail()
    assert offset_committed(reply) == "NOT_COORDINATOR"
    assert broker.client.committed_offset("g", T0, stable=True) == "NONE -1"


@pytest.mark.parametrize("version", [3, 4])
def test_add_partitions_is_answered_once_flushed(broker: TxnBroker, version: int):
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in of_x.items()}
    fields |= {"v3_and_below_transactional_id": "x", "v3_and_below_topics": topics}
    if version >= 4:
        added = AddPartitionsToTxnTransaction(transactional_id="x", **of_x, verify_only=False, topics=topics)
        fields = {"transactions": [added]}
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = send(broker, ADD_PARTITIONS_TO_TXN, version, **fields)
    broker.settle()
    assert not reply.done
    slow.release()
    answer = reply.result()
    [topic] = answer.results_by_transaction[0].topic_results if version >= 4 else answer.results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == ErrorCode.NONE


# -- the decision before its markers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_markers_follow_the_flushed_decision(broker: TxnBroker, committed: bool):
    """In another order, a power loss could leave markers of a commit that the coordinator aborts at the timeout."""
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = end(broker, committed)
    broker.advance(1_000)
    assert not reply.done
    assert len(broker.records(*T0)) == 1
    slow.release()
    assert reply.result().error_code == ErrorCode.NONE
    assert len(broker.records(*T0)) == 2
    assert broker.client.describe("x").startswith("CompleteCommit" if committed else "CompleteAbort")


def test_decision_found_at_a_start_is_flushed_first(broker: TxnBroker):
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, TRANSACTION_STATE)
    end(broker)
    broker.restart()
    broker.settle()
    assert len(broker.records(*T0)) == 1
    slow.release()
    assert len(broker.records(*T0)) == 2
    assert broker.client.describe("x").startswith("CompleteCommit")


def test_unflushed_decision_is_retried(broker: TxnBroker):
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, TRANSACTION_STATE)
    reply = end(broker)
    broker.settle()
    slow.fail()
    assert reply.result().error_code == ErrorCode.NOT_COORDINATOR
    assert len(broker.records(*T0)) == 1
    broker.advance(RETRY_MS)
    assert len(slow) == 1
    slow.release()
    assert len(broker.records(*T0)) == 2
    assert broker.client.describe("x").startswith("CompleteCommit")


def test_unloaded_coordinator_flushes_nothing(broker: TxnBroker):
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, TRANSACTION_STATE)
    end(broker)
    broker.settle()
    broker.transactions.stop()
    slow.fail()
    broker.advance(RETRY_MS)
    assert len(slow) == 0
    slow.release()
    assert len(broker.records(*T0)) == 1


# -- markers before the completion ------------------------------------------------------------------------------------


def test_transaction_completes_once_markers_are_flushed(broker: TxnBroker):
    """A power loss could remove an unflushed marker, and readers of committed records would wait for ever."""
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, "t")
    end(broker)
    broker.advance(1_000)
    assert len(broker.records(*T0)) == 2
    assert broker.client.describe("x").startswith("PrepareCommit")
    slow.release()
    assert broker.client.describe("x").startswith("CompleteCommit")
    assert broker.partition(*T0).log.recovery_point == 2


def test_marker_of_group_offsets_is_flushed_too(broker: TxnBroker):
    commit_offset(broker)
    broker.settle()
    slow = SlowDisk(broker, CONSUMER_OFFSETS)
    end(broker)
    broker.advance(1_000)
    assert broker.client.describe("x").startswith("PrepareCommit")
    slow.release()
    assert broker.client.describe("x").startswith("CompleteCommit")
    assert broker.client.committed_offset("g", T0, stable=True) == "NONE 7"


def test_unflushed_marker_is_written_again(broker: TxnBroker):
    write(broker)
    broker.settle()
    slow = SlowDisk(broker, "t")
    end(broker)
    broker.settle()
    slow.fail()
    assert broker.client.describe("x").startswith("PrepareCommit")
    broker.advance(RETRY_MS)
    assert len(slow) == 1
    slow.release()
    assert broker.client.describe("x").startswith("CompleteCommit")
    assert broker.client.committed_values("t") == [b"a"]


def test_markers_by_request_are_answered_once_flushed(broker: TxnBroker):
    """WriteTxnMarkers, also if the marker had to wait for earlier records."""
    broker.partitions.update_config("t", LogConfig(compression_type="gzip", flush_messages=1))
    large = batch(*[bytes(4_000)] * 50, timestamp=broker.clock.now_ms(), **of_x, base_sequence=0, transactional=True)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=large)])]
    broker.workers.held = True
    broker.send(PRODUCE, 12, transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=data)
    broker.settle()
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    marker = WritableTxnMarker(**of_x, transaction_result=False, topics=topics, coordinator_epoch=0)
    reply = send(broker, WRITE_TXN_MARKERS, 1, markers=[marker])
    slow = SlowDisk(broker, "t")
    broker.workers.release()
    broker.settle()
    assert broker.partition(*T0).log_end_offset == 51
    assert not reply.done
    slow.release()
    assert reply.result().markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert broker.partition(*T0).log.recovery_point == 51


# -- without flush.messages -------------------------------------------------------------------------------------------


def test_without_flush_messages_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Not even for another turn of the loop."""
    broker = made(tmp_path, {})
    broker.client.wait_for_group("g", T0)
    monkeypatch.setattr(broker.background, "flush", None)
    assert produced(write(broker)) == "NONE 0"
    assert offset_committed(commit_offset(broker)) == "NONE"
    assert end(broker).result().error_code == ErrorCode.NONE
    broker.loop.turn()
    assert broker.client.describe("x").startswith("CompleteCommit")
    monkeypatch.undo()
    broker.close()
