"""Verification of a batch with the transaction coordinator before its append (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.transaction.ending import RETRY_MS
from broker.coordinators.transaction.verifier import FirstBatch, TransactionVerifier
from broker.replicas.partition import OfflineLog
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.errors import LogQueued
from tests.support.data_client import batch
from tests.support.offered import handler_of
from tests.support.txn_broker import TxnBroker
from tests.support.txn_client import TxnClient

T0, T1 = ("t", 0), ("t", 1)


class DelayedVerifier:
    """The verifier of a worker, whose results always come later; here the coordinator is in this process."""

    def __init__(self, verifier: TransactionVerifier) -> None:
        self._verifier = verifier

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Deferred[Any]:
        codes = self._verifier.verify(transactional_id, tuple(batches), api_version)
        return codes if isinstance(codes, Deferred) else Deferred.resolved(codes)


@pytest.fixture(params=["here", "elsewhere"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TxnBroker]:
    made = TxnBroker(tmp_path)
    made.create("t", 2)
    assert made.client.init("x") == "NONE P0 0"
    if request.param == "elsewhere":
        made.verifier = DelayedVerifier(made.verifier)
    yield made
    made.close()


@pytest.fixture
def client(broker: TxnBroker) -> TxnClient:
    return broker.client


def written(broker: TxnBroker) -> list[int]:
    return [broker.partition(*place).log_end_offset for place in (T0, T1)]


def produce(broker: TxnBroker, *batches: bytes, version: int = 12, transactional_id: str | None = "x") -> list[str]:
    """Send one request with a batch for each partition from 0 on; return the codes."""
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    answer = broker.call(
        PRODUCE, version, transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=topics
    )
    return [ErrorCode(each.error_code).name for each in answer.responses[0].partition_responses]


def of_producer(broker: TxnBroker, producer_id: int, epoch: int = 0, **header: object) -> bytes:
    fields = {"base_sequence": 0, "transactional": True, **header}
    return batch(b"v", timestamp=broker.clock.now_ms(), producer_id=producer_id, producer_epoch=epoch, **fields)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, "INVALID_TXN_STATE"), (10, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE"), (12, "NONE")],
)
def test_partition_that_was_not_added(broker: TxnBroker, client: TxnClient, version: int, code: str):
    """From v12 on its first batch adds it. Older versions get an error that their clients know."""
    assert client.write("x", ("P0", 0), T0, 0, version=version).split()[0] == code
    assert written(broker) == ([1, 0] if code == "NONE" else [0, 0])
    assert client.describe("x").split()[0] == ("Ongoing" if code == "NONE" else "Empty")


def test_partitions_of_a_request_join_together(broker: TxnBroker):
    """With one record of the coordinator. Later batches write nothing."""
    pid = broker.client.producer_id("P0")
    before = [each.log_end_offset for each in broker.partitions.of_topic("__transaction_state").values()]
    assert produce(broker, of_producer(broker, pid), of_producer(broker, pid)) == ["NONE", "NONE"]
    more = [of_producer(broker, pid, base_sequence=1)] * 2
    assert produce(broker, *more) == ["NONE", "NONE"]
    after = [each.log_end_offset for each in broker.partitions.of_topic("__transaction_state").values()]
    assert sum(after) == sum(before) + 1


def test_open_transaction_needs_no_verification(broker: TxnBroker, client: TxnClient):
    """The log knows it, so an unavailable coordinator does not stop its producer."""
    client.write("x", ("P0", 0), T0, 0, version=12)
    broker.transactions.stop()
    assert client.write("x", ("P0", 0), T0, 1, version=12) == "NONE 1"
    assert client.write("x", ("P0", 0), T1, 0, version=12) == "NOT_ENOUGH_REPLICAS -1"


def test_plain_batches_need_no_verification(broker: TxnBroker, client: TxnClient):
    broker.transactions = None  # type: ignore[assignment]
    pid = client.producer_id("P0")
    assert produce(broker, of_producer(broker, pid, transactional=False), transactional_id=None) == ["NONE"]
    assert produce(broker, batch(b"v", timestamp=broker.clock.now_ms()), transactional_id="x") == ["NONE"]


def test_request_of_two_producers_is_rejected(broker: TxnBroker):
    pid = broker.client.producer_id("P0")
    assert (
        produce(broker, of_producer(broker, pid), of_producer(broker, pid + 7)) == ["INVALID_PRODUCER_ID_MAPPING"] * 2
    )
    assert written(broker) == [0, 0]


@pytest.mark.parametrize("version", [3, 11, 12])
@pytest.mark.parametrize("epoch", [-1, 1, 32_767])
def test_wrong_epochs_are_rejected(broker: TxnBroker, client: TxnClient, version: int, epoch: int):
    """A zombie's, or one higher than the current one."""
    assert client.write("x", ("P0", epoch), T0, 0, version=version).startswith("INVALID_PRODUCER_EPOCH")
    assert written(broker) == [0, 0]


def test_fenced_epoch_is_rejected_without_verification(broker: TxnBroker, client: TxnClient):
    client.write("x", ("P0", 0), T0, 0, version=12)
    client.end("x", ("P0", 0), True, 5)
    client.settled("x")
    broker.transactions = None  # type: ignore[assignment]
    for version in (10, 11, 12):
        assert client.write("x", ("P0", 0), T0, 1, version=version) == "INVALID_PRODUCER_EPOCH -1"


def test_wrong_producer_ids_are_rejected(client: TxnClient):
    assert client.write("y", ("P0", 0), T0, 0, version=12) == "INVALID_PRODUCER_ID_MAPPING -1"
    assert client.write("", ("P0", 0), T0, 0, version=12) == "INVALID_REQUEST -1"


def test_unknown_producer_has_to_begin_at_sequence_0(broker: TxnBroker, client: TxnClient):
    """Where a first batch adds its partition, a lost first batch would otherwise go unnoticed."""
    assert client.write("x", ("P0", 0), T0, 3, version=12) == "OUT_OF_ORDER_SEQUENCE_NUMBER -1"
    client.add("x", ("P0", 0), T1)
    assert client.write("x", ("P0", 0), T1, 3, version=11) == "NONE 0"


def test_verification_can_be_disabled(tmp_path: Path):
    """transaction.partition.verification.enable. First batches still add partitions."""
    broker = TxnBroker(tmp_path, {"transaction.partition.verification.enable": "false"})
    broker.create("t", 2)
    client = broker.client
    assert client.init("x") == "NONE P0 0"
    assert client.write("x", ("P0", 0), T0, 0, version=11) == "NONE 0"
    assert client.describe("x").startswith("Empty")
    assert client.write("x", ("P0", 0), T1, 0, version=12) == "NONE 0"
    assert client.describe("x").startswith("Ongoing")
    broker.close()


RETRY = "add.partitions.to.txn.retry.backoff"


def begin_too_early(broker: TxnBroker) -> Deferred[Struct]:
    """Produce for the next transaction while the last one lacks a marker; the request's buffer is overwritten."""
    client = broker.client
    client.write("x", ("P0", 0), T0, 0, version=12)
    broker.partition(*T0).isr = ()
    assert client.end("x", ("P0", 0), True, 5) == "NONE P0 1"
    records = of_producer(broker, client.producer_id("P0"), epoch=1)
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=records)])]
    request = PRODUCE.request(transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=topics)
    data = bytearray(PRODUCE.request.encode(12, request))
    decoded, _ = PRODUCE.request.decode(12, memoryview(data))
    reply = handler_of(broker, PRODUCE)(broker.context(PRODUCE, 12), decoded)
    data[:] = bytes(len(data))
    assert reply is not None
    return reply if isinstance(reply, Deferred) else Deferred.resolved(reply)


def answered(reply: Deferred[Struct]) -> str:
    found = reply.result().responses[0].partition_responses[0]
    return f"{ErrorCode(found.error_code).name} {found.base_offset}"


def made(folder: Path, **settings: str) -> TxnBroker:
    broker = TxnBroker(folder, {RETRY + name.replace("_", "."): value for name, value in settings.items()})
    broker.create("t", 2)
    assert broker.client.init("x") == "NONE P0 0"
    return broker


def test_early_producer_waits_for_the_markers(tmp_path: Path):
    """KIP-890: CONCURRENT_TRANSACTIONS is returned only if waiting does not help."""
    broker = made(tmp_path, _max_ms="1000")
    partition = broker.partition(*T0)
    replicas = partition.replicas
    reply = begin_too_early(broker)
    broker.advance(300)
    assert not reply.done
    partition.isr = replicas
    broker.advance(2 * RETRY_MS)
    assert answered(reply) == "NONE 0"
    assert [record.value for record in broker.records(*T1)] == [b"v"]
    assert broker.client.describe("x").startswith("Ongoing P0 1")
    broker.close()


def test_waiting_records_of_a_lost_client_are_appended(tmp_path: Path):
    """Their partition joins, and a transaction without records would stay open until its timeout."""
    broker = made(tmp_path, _max_ms="1000")
    begin_too_early(broker).cancel()
    broker.partition(*T0).isr = broker.partition(*T0).replicas
    broker.advance(RETRY_MS + 20)
    assert broker.client.describe("x").startswith("Ongoing")
    assert [record.value for record in broker.records(*T1)] == [b"v"]
    broker.close()


def test_too_early_producer_gets_an_error(broker: TxnBroker):
    """After 100 ms, with a retry every 20 ms."""
    reply = begin_too_early(broker)
    broker.advance(99)
    assert not reply.done
    broker.advance(20)
    assert answered(reply) == "CONCURRENT_TRANSACTIONS -1"
    assert broker.partition(*T1).log_end_offset == 0


def test_waiting_for_markers_can_be_disabled(tmp_path: Path):
    broker = made(tmp_path, _max_ms="0")
    assert answered(begin_too_early(broker)) == "CONCURRENT_TRANSACTIONS -1"
    broker.close()


def test_log_opened_during_verification_is_rejected(broker: TxnBroker, monkeypatch: pytest.MonkeyPatch):
    """Its partition was not verified, and the batch would be in the log without a transaction."""
    waits = LogQueued("t-1", "others come first")
    other = broker.partition("t", 1)
    log = other.log
    other.set_offline(OfflineLog("t", 1, other.topic_id, log.config, waits))
    asked, join = [], broker.transactions.join

    def open_then(transactional_id: str, producer: Any, places: Any, *more: Any) -> Any:
        asked.append(sorted(places))
        other.log = log
        return join(transactional_id, producer, places, *more)

    monkeypatch.setattr(broker.transactions, "join", open_then)
    batches = [of_producer(broker, 0), of_producer(broker, 0)]
    assert produce(broker, *batches) == ["NONE", "NOT_LEADER_OR_FOLLOWER"]
    assert asked == [[T0]]
    assert written(broker) == [1, 0]
    assert broker.client.describe("x").endswith("['t-0']")
    assert broker.client.write("x", ("P0", 0), T1, 0, version=12).startswith("NONE")
    assert asked[1:] == [[T1]]
    assert broker.client.describe("x").endswith("['t-0', 't-1']")


def test_disk_failure_is_reported(broker: TxnBroker, client: TxnClient):
    for directory in broker.logs.directories:
        directory.fail("on fire")
    assert client.write("x", ("P0", 0), T0, 0, version=11).startswith(("KAFKA_STORAGE_ERROR", "TRANSACTION_ABORTABLE"))
