"""A transactional id without further producer epochs continues with another producer id, as at Apache Kafka.

That takes tens of thousands of transactions. A record of the coordinator's log, which both brokers read, replaces them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.transaction import Transaction
from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.settled import wait_for_topic
from tests.support.txn_client import TxnClient

LAST = 32_766
"""the last epoch of a producer; the one after it is only for fencing"""
PLACE = ("t", 0)


def move_on(broker: RunningBroker, transactional_id: str, producer_id: int, epoch: int) -> None:
    """Write the coordinator's record for an id with so many epochs; the broker is stopped."""
    now_ms = time.time_ns() // 1_000_000
    transaction = Transaction(transactional_id, producer_id, 60_000, now_ms, epoch, previous_producer_id=producer_id)
    record = TransactionRecord(transactional_id, transaction)
    log = next(path for path in sorted(broker.log_dir.glob("__transaction_state-*/*.log")) if has(path, record.key))
    end = list(iter_batches(log.read_bytes()))[-1][1]
    builder = BatchBuilder(end.next_offset, leader_epoch=end.leader_epoch)
    builder.append(now_ms, record.key, record.value)
    with log.open("ab") as file:
        file.write(builder.build())


def has(log: Path, key: bytes) -> bool:
    return key in log.read_bytes()


@pytest.fixture(params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """Start a broker on which the ids "x", "y" and "z" are one step before their last epochs."""
    running = start_broker(request.param)
    with TxnClient(HOST, running.port) as client:
        client.create_topic("t", 1)
        wait_for_topic(running, "t", 1)
        ids = {}
        for name in ("x", "y", "z"):
            client.wait_for_coordinator(name)
            ids[name] = client.producer_id(client.init_with_retries(name).split()[1])
    running.stop()
    for name, producer_id in ids.items():
        move_on(running, name, producer_id, LAST - 1)
    running.start()
    return running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[TxnClient]:
    with TxnClient(HOST, broker.port) as made:
        for name in ("x", "y", "z"):
            made.wait_for_coordinator(name)
        made.init_with_retries("another")  # Kafka must ask for a block of producer ids first: P0 is the one of this
        yield made


def test_another_producer_id_takes_over(client: TxnClient):
    """KIP-360, KIP-890: at the end of a transaction that a newcomer aborts, that a producer continues, and with a
    commit.
    """
    assert client.init_with_retries("x") == f"NONE P1 {LAST}"
    assert client.write("x", ("P1", LAST), PLACE, 0, b"aborted", version=12) == "NONE 0"
    assert client.init("x") == "CONCURRENT_TRANSACTIONS - -1"
    assert client.settled("x").startswith("CompleteAbort P2 0")
    assert client.init_with_retries("x") == "NONE P2 1"
    assert client.write("x", ("P1", LAST), PLACE, 1, version=12) == "INVALID_PRODUCER_EPOCH -1"
    assert client.end("x", ("P1", LAST), True, 5) == "INVALID_PRODUCER_ID_MAPPING - -1"

    assert client.init_with_retries("y") == f"NONE P3 {LAST}"
    assert client.init("y", ("P3", LAST)) == "NONE P4 0"
    assert client.init("y", ("P3", LAST)) == "NONE P4 0"
    assert client.init("y", ("P3", LAST - 1)) == "PRODUCER_FENCED - -1"
    assert client.end("y", ("P3", LAST), False, 5) == "INVALID_PRODUCER_ID_MAPPING - -1"

    assert client.init_with_retries("z") == f"NONE P5 {LAST}"
    assert client.write("z", ("P5", LAST), PLACE, 0, b"committed", version=12) == "NONE 2"
    assert client.end("z", ("P5", LAST), True, 5) == "NONE P6 0"
    assert client.settled("z").startswith("CompleteCommit P6 0")
    assert client.end("z", ("P5", LAST), True, 5) == "NONE P6 0"
    assert client.end("z", ("P5", LAST), False, 5) == "INVALID_TXN_STATE - -1"
    assert client.write("z", ("P6", 0), PLACE, 0, b"next", version=12) == "NONE 4"
    assert client.end("z", ("P6", 0), True, 5) == "NONE P6 1"
    client.settled("z")
    assert client.committed_values("t") == [b"committed", b"next"]
