"""EndTxn: which producers need another producer id, which the broker may have to allocate first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.coordinators.transaction.producer_ids import ProducerIds
from coordinator.transaction.records import TransactionRecord
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import END_TXN
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.txn_broker import TxnBroker

LAST_EPOCH = 32_766


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    """Producer x has an open transaction."""
    made = TxnBroker(tmp_path)
    made.create("t")
    assert made.client.init("x") == "NONE P0 0"
    assert made.client.write("x", ("P0", 0), ("t", 0), 0, version=12) == "NONE 0"
    yield made
    made.close()


def end(broker: TxnBroker, epoch: int) -> Deferred[Struct]:
    fields = {"producer_id": broker.client.producer_id("P0"), "producer_epoch": epoch}
    reply = broker.send(END_TXN, 5, transactional_id="x", **fields, committed=True)
    assert reply is not None
    return reply


def test_a_transaction_ends_without_a_producer_id_in_store(broker: TxnBroker):
    """After a start the broker has no block of ids, and to allocate one takes a sync of the metadata log."""
    broker.producer_ids = ProducerIds(lambda count: pytest.fail("nobody needs one"))
    answer = end(broker, 0).result()
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 1)


def test_a_producer_with_exhausted_epochs_waits_for_an_id(broker: TxnBroker):
    allocated: Deferred[int] = Deferred()
    broker.producer_ids = ProducerIds(lambda count: allocated)
    found = next(each for each in broker.transactions.loaded_logs() if "x" in each.shard.transactions)
    old = replace(found.shard.transactions["x"], producer_epoch=LAST_EPOCH)
    assert broker.transactions.run_records(found, [TransactionRecord("x", old, 1)]) is ErrorCode.NONE
    reply = end(broker, LAST_EPOCH)
    assert not reply.done
    allocated.resolve(7_000)
    answer = reply.result()
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 7_000, 0)
