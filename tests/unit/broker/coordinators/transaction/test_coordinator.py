"""Transactions in one broker: markers, last stable offset, committed offsets, timeouts, restarts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.coordinators.transaction.ending import RETRY_MS
from coordinator.partition_for_key import partition_for
from coordinator.transaction.state import TransactionState
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnTopic
from protocol.messages.end_txn import END_TXN
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS, WritableTxnMarker, WritableTxnMarkerTopic
from protocol.records.batch import iter_batches
from protocol.records.control import ControlType, control_type, coordinator_epoch
from storage.log_config import LogConfig
from tests.support.data_client import batch
from tests.support.txn_broker import Crash, TxnBroker
from tests.support.txn_client import TxnClient

T0, T1 = ("t", 0), ("t", 1)
of_x = {"producer_id": 0, "producer_epoch": 0}  # the first producer id


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    made = TxnBroker(tmp_path)
    made.create("t", 2)
    yield made
    made.close()


@pytest.fixture
def client(broker: TxnBroker) -> TxnClient:
    return broker.client


def open_transaction(client: TxnClient) -> None:
    """Begin a transaction of x with a record in each partition of t."""
    assert client.init("x") == "NONE P0 0"
    assert client.write("x", ("P0", 0), T0, 0, b"a", version=12) == "NONE 0"
    assert client.write("x", ("P0", 0), T1, 0, b"b", version=12) == "NONE 0"


def end_without_markers(broker: TxnBroker, commit: bool = True) -> None:
    """End the transaction: the decision is written and answered, but no marker yet."""
    reply = broker.send(
        END_TXN,
        5,
        transactional_id="x",
        producer_id=broker.client.producer_id("P0"),
        producer_epoch=0,
        committed=commit,
    )
    assert reply is not None
    assert reply.result().error_code == ErrorCode.NONE


# -- the two phases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_each_partition_gets_a_marker_after_the_response(broker: TxnBroker, client: TxnClient, commit: bool):
    """S20.10, S20.11: decision, response, a marker in each partition, then the completion."""
    open_transaction(client)
    end_without_markers(broker, commit)
    assert [broker.partition(*place).last_stable_offset for place in (T0, T1)] == [0, 0]
    broker.settle()
    marker = broker.records("t")[-1]
    assert control_type(marker) is (ControlType.COMMIT if commit else ControlType.ABORT)
    assert coordinator_epoch(marker) == broker.partition("__transaction_state").leader_epoch
    assert [broker.partition(*place).last_stable_offset for place in (T0, T1)] == [2, 2]
    assert client.describe("x").startswith("CompleteCommit" if commit else "CompleteAbort")
    assert client.committed_values("t") == ([b"a"] if commit else [])
    assert client.aborted("t") == ("NONE 2 []" if commit else "NONE 2 ['P0@0']")


def test_repeated_topics_and_partitions_are_answered_once(broker: TxnBroker, client: TxnClient):
    assert client.init("x") == "NONE P0 0"
    answer = client.call(
        ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=client.producer_id("P0"),
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=each) for each in ([0, 0], [1, 0])],
    )
    [topic] = answer.results_by_topic_v3_and_below
    assert [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
    ]


def test_state_partition_is_the_hash_of_the_id(broker: TxnBroker, client: TxnClient):
    """S20.4: Java's hash of it, by the number of partitions."""
    client.wait_for_coordinator("x")
    for name in ("x", "y", "left-open", "ünï"):
        partition = broker.partition("__transaction_state", partition_for(name, 2))
        before = partition.log_end_offset
        client.init(name)
        assert partition.log_end_offset == before + 1


def test_records_of_a_transaction_are_flagged(broker: TxnBroker, client: TxnClient):
    """S20.9: and so is the marker that ends it."""
    open_transaction(client)
    client.end("x", ("P0", 0), True, 5)
    log = broker.partition("t").log
    piece = log.read(0, 1 << 20, log.log_end_offset)
    data = piece if isinstance(piece, bytes) else piece.read()
    assert [(each.is_transactional, each.is_control) for _, each in iter_batches(data)] == [(True, False), (True, True)]


def test_read_committed_stops_at_the_last_stable_offset(client: TxnClient):
    """S20.15."""
    open_transaction(client)
    assert client.init(None) == "NONE P1 0"
    client.write(None, ("P1", 0), T0, 0, b"plain", version=12, transactional=False)
    assert (client.latest("t", committed=True), client.latest("t", committed=False)) == (0, 2)
    assert client.committed_values("t") == []
    client.end("x", ("P0", 0), False, 5)
    assert client.committed_values("t") == [b"plain"]


def test_aborted_transactions_are_in_the_segments_index(broker: TxnBroker, client: TxnClient):
    """S6.1."""
    open_transaction(client)
    client.end("x", ("P0", 0), False, 5)
    path = Path(broker.partition("t").log.path)
    assert [each.stat().st_size for each in path.glob("*.txnindex")] == [34]


def test_offsets_of_a_transaction_count_once_committed(client: TxnClient):
    """S20.13, KIP-447."""
    assert client.init("x") == "NONE P0 0"
    assert client.commit_offset("x", ("P0", 0), "g", T0, 5, version=5) == "NONE"
    assert client.committed_offset("g", T0) == "NONE -1"
    assert client.committed_offset("g", T0, stable=True) == "UNSTABLE_OFFSET_COMMIT -1"
    assert client.end("x", ("P0", 0), True, 5) == "NONE P0 1"
    assert client.committed_offset("g", T0, stable=True) == "NONE 5"
    assert client.commit_offset("x", ("P0", 1), "g", T0, 9, version=5) == "NONE"
    assert client.end("x", ("P0", 1), False, 5) == "NONE P0 2"
    assert client.committed_offset("g", T0, stable=True) == "NONE 5"


def test_deleted_partition_needs_no_marker(broker: TxnBroker, client: TxnClient):
    open_transaction(client)
    broker.create("other")
    client.write("x", ("P0", 0), ("other", 0), 0, version=12)
    broker.partitions.delete("other")
    client.end("x", ("P0", 0), True, 5)
    assert client.describe("x").startswith("CompleteCommit")


def test_partition_that_rejects_its_marker_is_retried(broker: TxnBroker, client: TxnClient):
    """The others have theirs. The transaction completes once all have."""
    open_transaction(client)
    partition = broker.partition(*T1)
    replicas = partition.replicas
    partition.isr = ()
    client.end("x", ("P0", 0), True, 5)
    assert client.describe("x").startswith("PrepareCommit")
    assert client.init("x").startswith("CONCURRENT_TRANSACTIONS")
    assert client.add("x", ("P0", 1), T0) == "t-0 CONCURRENT_TRANSACTIONS"
    assert [broker.partition(*place).last_stable_offset for place in (T0, T1)] == [2, 0]
    partition.isr = replicas
    broker.advance(RETRY_MS)
    assert client.describe("x").startswith("CompleteCommit")
    assert [len(broker.records(*place)) for place in (T0, T1)] == [2, 2]


def test_coordinator_that_cannot_complete_retries(broker: TxnBroker, client: TxnClient):
    open_transaction(client)
    end_without_markers(broker)
    found = broker.transactions.at("x")
    assert not isinstance(found, ErrorCode)
    partition = broker.partition("__transaction_state", found.partition)
    replicas, partition.isr = partition.isr, ()
    broker.settle()
    assert found.transactions["x"].state is TransactionState.PREPARE_COMMIT
    partition.isr = replicas
    broker.advance(RETRY_MS)
    assert found.transactions["x"].state is TransactionState.COMPLETE_COMMIT
    assert len(broker.records("t")) == 2


def test_marker_waits_for_earlier_records(broker: TxnBroker, client: TxnClient):
    """A batch that is recompressed on a background thread still belongs to its transaction."""
    client.init("x")
    broker.partitions.update_config("t", LogConfig(compression_type="gzip"))
    large = batch(*[bytes(4_000)] * 50, timestamp=client.timestamp, **of_x, base_sequence=0, transactional=True)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=large)])]
    broker.workers.held = True
    produced = broker.send(PRODUCE, 12, transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=data)
    assert produced is not None
    end_without_markers(broker)
    assert client.add("x", ("P0", 0), T1) == "t-1 CONCURRENT_TRANSACTIONS"
    assert client.describe("x").startswith("PrepareCommit")
    broker.workers.release()
    broker.settle()
    assert produced.result().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert client.describe("x").startswith("CompleteCommit")
    assert len(client.committed_values("t")) == 50
    assert broker.partition("t").last_stable_offset == 51
    assert client.write("x", ("P0", 0), T1, 0, version=12).startswith("INVALID_PRODUCER_EPOCH")


def test_markers_by_request_wait_too(broker: TxnBroker, client: TxnClient):
    """WriteTxnMarkers is answered once they are written."""
    client.init("x")
    broker.partitions.update_config("t", LogConfig(compression_type="gzip"))
    large = batch(*[bytes(4_000)] * 50, timestamp=client.timestamp, **of_x, base_sequence=0, transactional=True)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=large)])]
    broker.workers.held = True
    broker.send(PRODUCE, 12, transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=data)
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])]
    marker = WritableTxnMarker(**of_x, transaction_result=False, topics=topics, coordinator_epoch=0)
    answer = broker.send(WRITE_TXN_MARKERS, 1, markers=[marker])
    assert answer is not None
    assert not answer.done
    broker.workers.release()
    codes = [each.error_code for each in answer.result().markers[0].topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    assert client.committed_values("t") == []


def test_responses_wait_for_the_flush_if_configured(broker: TxnBroker, client: TxnClient):
    """flush.messages of __transaction_state."""
    open_transaction(client)
    for partition in broker.partitions.of_topic("__transaction_state").values():
        partition.log.config = replace(partition.log.config, flush_messages=1)
    broker.background.held = True
    ended = broker.send(END_TXN, 5, transactional_id="x", **of_x, committed=True)
    assert ended is not None
    assert not ended.done
    broker.background.release()
    broker.background.held = False
    broker.settle()
    assert ended.result().error_code == ErrorCode.NONE
    assert client.describe("x").startswith("CompleteCommit")


# -- time --------------------------------------------------------------------------------------------------------------


def test_transaction_times_out_and_fences_its_producer(broker: TxnBroker, client: TxnClient):
    """S20.16: checked every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
    client.init("x", timeout_ms=5_000)
    client.write("x", ("P0", 0), T0, 0, version=12)
    broker.advance(9_000)
    assert client.describe("x").startswith("Ongoing")
    broker.advance(1_001)
    assert client.describe("x").startswith("CompleteAbort P0 1 ")
    assert client.latest("t", committed=True) == 2
    assert client.write("x", ("P0", 0), T0, 1, version=12).startswith("INVALID_PRODUCER_EPOCH")
    assert client.end("x", ("P0", 0), True, 4) == "PRODUCER_FENCED"


def test_transactional_ids_expire(broker: TxnBroker, client: TxnClient):
    """After transactional.id.expiration.ms, checked every
    transaction.remove.expired.transaction.cleanup.interval.ms.
    """
    client.init("x")
    broker.advance(604_800_000 - 3_600_000)
    client.init("y")
    broker.advance(2 * 3_600_000)
    broker.restart()
    assert client.describe("x") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert client.describe("y").startswith("Empty")


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_restart_ends_decided_transactions(broker: TxnBroker, client: TxnClient):
    open_transaction(client)
    end_without_markers(broker)
    broker.restart()
    broker.settle()
    assert client.describe("x").startswith("CompleteCommit P0 1 ")
    assert client.committed_values("t", 1) == [b"b"]
    assert coordinator_epoch(broker.records("t")[-1]) == 1


def test_restart_keeps_open_transactions(broker: TxnBroker, client: TxnClient):
    open_transaction(client)
    broker.restart()
    assert client.write("x", ("P0", 0), T0, 1, b"c", version=12) == "NONE 1"
    assert client.end("x", ("P0", 0), True, 5) == "NONE P0 1"
    assert client.committed_values("t") == [b"a", b"c"]


#: (value, offset, whether it was committed) of each transaction of `workload`.
STEPS = ((b"1", 11, True), (b"2", 12, False), (b"3", 13, True))


def workload(client: TxnClient, acknowledged: list[bytes]) -> None:
    """Two transactions of the newer protocol and one of the older; each has two partitions and a group's offsets."""
    name, epoch = client.init("x").split()[1:]
    producer = (name, int(epoch))
    for value, offset, commit in STEPS[:2]:
        for place in (T0, T1):
            assert client.write("x", producer, place, 0, value, version=12).startswith("NONE")
        assert client.commit_offset("x", producer, "g", T0, offset, version=5) == "NONE"
        code, name, epoch = client.end("x", producer, commit, 5).split()
        assert code == "NONE"
        producer = (name, int(epoch))
        acknowledged.append(value)
    value, offset, commit = STEPS[2]
    assert client.add("x", producer, T0, T1) == "t-0 NONE, t-1 NONE"
    for place in (T0, T1):
        assert client.write("x", producer, place, 0, value).startswith("NONE")
    assert client.add_offsets("x", producer, "g") == "NONE"
    assert client.commit_offset("x", producer, "g", T0, offset, version=3) == "NONE"
    assert client.end("x", producer, commit, 4) == "NONE"
    acknowledged.append(value)


def crashed(directory: Path, appends: int) -> tuple[TxnBroker, list[bytes], bool]:
    """Run the workload, crash after `appends` appends, restart; return broker, acknowledged values, if it crashed."""
    broker = TxnBroker(directory)
    broker.create("t", 2)
    broker.client.wait_for_coordinator("x")
    broker.client.find_coordinator("g")
    acknowledged: list[bytes] = []
    broker.crash_after = appends
    try:
        workload(broker.client, acknowledged)
        broker.settle()
        ended = False
    except Crash:
        ended = True
    broker.restart()
    broker.advance(1_000)
    return broker, acknowledged, ended


def test_crash_at_any_append_keeps_transactions_atomic(tmp_path: Path):
    """S20.1: every append of the workload is once the last: records, decisions, each marker, completions.

    After the restart nothing hangs and acknowledged writes are there. Each transaction is in all of its partitions
    and in its group's offsets, or in none.
    """
    appends = 0
    while True:
        broker, acknowledged, ended = crashed(tmp_path / str(appends), appends)
        if not ended:
            break
        client = broker.client
        assert not client.describe("x").startswith("Prepare")
        if client.describe("x").startswith("Ongoing"):  # its producer may not return: another one takes over
            assert client.init("x").startswith("CONCURRENT_TRANSACTIONS")
        for place in (T0, T1):
            partition = broker.partition(*place)
            assert partition.last_stable_offset == partition.log_end_offset
        seen = client.committed_values("t")
        assert seen == client.committed_values("t", 1)
        decided = [value for value, _, commit in STEPS if commit]
        assert seen == decided[: len(seen)]
        assert {value for value in acknowledged if value in decided} <= set(seen)
        offsets = [offset for value, offset, _ in STEPS if value in seen]
        assert client.committed_offset("g", T0, stable=True) == f"NONE {offsets[-1] if offsets else -1}"
        assert client.init("x").startswith("NONE")
        broker.close()
        appends += 1
    assert acknowledged == [value for value, _, _ in STEPS]
    assert appends > 25
    broker.close()


@pytest.mark.parametrize("way", ["its partitions are lost", "it stops"])
def test_unloaded_coordinator_ends_no_transactions(broker: TxnBroker, client: TxnClient, way: str):
    open_transaction(client)
    end_without_markers(broker)
    if way == "it stops":
        broker.transactions.stop()
    else:
        for partition in broker.partitions.of_topic("__transaction_state").values():
            broker.transactions.partition_lost(partition)
    broker.advance(1_000)
    assert [broker.partition(*place).last_stable_offset for place in (T0, T1)] == [0, 0]


def test_producer_cannot_add_internal_topics(client: TxnClient):
    """Other partitions of the request fail too. AddOffsetsToTxn adds the offsets topic."""
    assert client.init("x") == "NONE P0 0"
    assert client.add("x", ("P0", 0), T0, ("__consumer_offsets", 0)) == (
        "__consumer_offsets-0 TOPIC_AUTHORIZATION_FAILED, t-0 OPERATION_NOT_ATTEMPTED"
    )
    assert client.describe("x").startswith("Empty")
    assert client.add_offsets("x", ("P0", 0), "g") == "NONE"
