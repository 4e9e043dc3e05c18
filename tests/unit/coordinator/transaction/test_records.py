"""The bytes of the records of `__transaction_state`, and a recorded log."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.load import replay_batches
from coordinator.shard import UnknownRecord
from coordinator.transaction.records import TransactionRecord, parse_record
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.state import LEGAL_FROM, TransactionState
from coordinator.transaction.transaction import TopicPartition, Transaction
from protocol.records.batch import iter_batches
from protocol.records.entries import iter_records
from tests.support.transactions import as_stored

DIRECTORY = Path("tests/data/logs/v4.3.1-clean-shutdown")
LOG = (DIRECTORY / "__transaction_state-0" / "00000000000000000000.log").read_bytes()
DECODED = (DIRECTORY / "__transaction_state-0.decoded.txt").read_text().splitlines()

ids = st.text(max_size=12).filter(str.isprintable)
longs = st.integers(-1, 2**62)
transactions = st.builds(
    Transaction,
    ids,
    longs,
    st.integers(1, 2**31 - 1),
    longs,
    st.integers(-1, 2**15 - 1),
    st.sampled_from(sorted(LEGAL_FROM)),
    st.frozensets(st.builds(TopicPartition, st.sampled_from(["t", "u", "__consumer_offsets"]), st.integers(0, 99))),
    longs,
    longs,
    longs,
    st.sampled_from([0, 1, 2]),
)


def normal(transaction: Transaction) -> Transaction:
    """Ids without a transaction have no partitions."""
    from msgspec.structs import replace

    return replace(transaction, partitions=frozenset()) if transaction.state is TransactionState.EMPTY else transaction


@given(transactions)
def test_records_round_trip(transaction):
    transaction = normal(transaction)
    record = TransactionRecord(transaction.transactional_id, transaction)
    assert parse_record(record.key, record.value) == record


@given(transactions)
def test_older_records_have_fewer_fields(transaction):
    transaction = normal(transaction)
    record = TransactionRecord(transaction.transactional_id, transaction, version=0)
    found = parse_record(record.key, record.value)
    assert found.version == 0
    assert found.transaction is not None
    assert (found.transaction.previous_producer_id, found.transaction.next_producer_id) == (-1, -1)
    assert found.transaction.client_version == 0
    assert found.transaction.partitions == transaction.partitions
    assert found.transaction.state is transaction.state


def test_tombstone_round_trips():
    record = TransactionRecord("x", None)
    assert parse_record(record.key, record.value) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", None),
        (b"\0\1\0\0", b"\0\0"),  # another type
        (b"\0\0\0\5x", None),  # a truncated id
        (b"\0\0\0\1x", b"\0\7"),  # another version
        (b"\0\0\0\1x", b"\0\0" + bytes(3)),
        (b"\0\0\0\1x", b"\0\0" + bytes(14) + b"\6" + b"\xff" * 4 + bytes(16)),  # Dead is never written
        (b"\0\0\0\1x", b"\0\0" + bytes(14) + b"\x63" + b"\xff" * 4 + bytes(16)),
    ],
)
def test_invalid_bytes_are_unknown(key, value):
    with pytest.raises(UnknownRecord):
        parse_record(key, value)


# -- a log that Apache Kafka wrote ------------------------------------------------------------------------------------


def decoded_records():
    """Return (offset, transactional id, value or None) as kafka-dump-log prints them."""
    for line in DECODED:
        match = re.match(r"\| offset: (\d+) .* key: ({.*}) payload: (.*)$", line)
        if match:
            offset, key, payload = match.groups()
            value = None if payload == "<DELETE>" else json.loads(payload)["data"]
            yield int(offset), json.loads(key)["data"]["transactionalId"], value


def loaded() -> TransactionShard:
    shard = TransactionShard(0, TransactionSettings(), lambda: 2)
    *_, (end, _) = replay_batches(shard, LOG, 0)
    assert end == len(list(decoded_records()))
    return shard


def test_recorded_log_loads_as_kafka_decodes_it():
    """S20.18, S20.3: the last record of an id is its state."""
    expected = {transactional_id: value for _, transactional_id, value in decoded_records()}
    found = {
        each.transactional_id: {
            "producerId": each.producer_id,
            "previousProducerId": each.previous_producer_id,
            "producerEpoch": each.producer_epoch,
            "transactionTimeoutMs": each.timeout_ms,
            "transactionStatus": each.state.text,
            "transactionLastUpdateTimestampMs": each.update_ms,
            "transactionStartTimestampMs": each.start_ms,
            "clientTransactionVersion": each.client_version,
            "places": {(place.topic, place.partition) for place in each.partitions},
        }
        for each in loaded().transactions.values()
    }
    for value in expected.values():
        value["places"] = {
            (each["topic"], index)
            for each in value.pop("transactionPartitions") or ()
            for index in each["partitionIds"]
        }
    assert found == expected
    assert not loaded().unknown_records


def test_recorded_log_has_a_transaction_that_is_open():
    """The coordinator that loads the log has to end it."""
    shard = loaded()
    states = {each.transactional_id: each.state for each in shard.transactions.values()}
    assert set(shard.ongoing) == {name for name, state in states.items() if state is TransactionState.ONGOING} != set()
    assert not shard.prepared


def test_written_records_equal_kafkas():
    """Partitions are in no fixed order: with several of them, length and meaning are compared."""
    compared = 0
    for position, header in iter_batches(LOG):
        for record in iter_records(memoryview(LOG)[position : position + header.size_bytes]):
            parsed = parse_record(record.key, record.value)
            assert parsed.key == record.key
            assert parsed.transaction is not None
            assert as_stored(parsed.transaction) == parsed.transaction
            if len(parsed.transaction.partitions) < 2:
                assert parsed.value == record.value
                compared += 1
            else:
                assert parse_record(record.key, parsed.value) == parsed
                assert len(parsed.value) == len(record.value)
    assert compared > 20
