"""`__transaction_state` has Kafka's format: one broker ends the transactions that the other began."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.settled import wait_for_topic
from tests.support.tools import MAIN_CLASSES
from tests.support.txn_client import TxnClient

PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
NAMES = ("complete", "open", "left")


@pytest.mark.parametrize(("writer", "reader"), [("ours", "kafka"), ("kafka", "ours")])
def test_transactions_move_between_brokers(tmp_path: Path, java: JavaRunner, writer: str, reader: str) -> None:
    """After a kill: one that is complete, one whose producer continues, one that another producer takes over."""
    running: list[RunningBroker] = [BROKERS[writer](tmp_path, PROPERTIES)]
    try:
        with TxnClient(HOST, running[0].port) as client:
            client.create_topic("t")
            wait_for_topic(running[0], "t", 1)
            client.wait_for_coordinator("complete")
            client.wait_for_group("g", ("t", 0))
            for number, name in enumerate(NAMES):
                assert client.init_with_retries(name) == f"NONE P{number} 0"
                assert client.write(name, (f"P{number}", 0), ("t", 0), 0, name.encode(), version=12).startswith("NONE")
            assert client.commit_offset("open", ("P1", 0), "g", ("t", 0), 5, version=5) == "NONE"
            assert client.end("complete", ("P0", 0), True, 5) == "NONE P0 1"
            client.settled("complete")
            described = [client.describe(name) for name in NAMES]
            names = dict(client._names)
        running[0].kill()

        running.append(BROKERS[reader](tmp_path, PROPERTIES))
        with TxnClient(HOST, running[1].port) as client:
            client._names = names
            wait_for_topic(running[1], "t", 1)
            client.wait_for_group("g", ("t", 0))
            client.wait_for_coordinator("open")
            client.init_with_retries("late")  # once it answers, the log is loaded
            assert [client.describe(name) for name in NAMES] == described
            assert client.committed_offset("g", ("t", 0), stable=True) == "UNSTABLE_OFFSET_COMMIT -1"
            assert client.init_with_retries("left") == "NONE P2 2"
            assert client.write("open", ("P1", 0), ("t", 0), 1, b"more", version=12).startswith("NONE")
            assert client.end("open", ("P1", 0), True, 5) == "NONE P1 1"
            client.settled("open")
            assert client.committed_values("t") == [b"complete", b"open", b"more"]
            assert client.committed_offset("g", ("t", 0), stable=True) == "NONE 5"
            assert client.end("complete", ("P0", 0), True, 5) == "NONE P0 1"
    finally:
        for broker in running:
            if broker.is_running:
                broker.stop()
    segment = tmp_path / "logs" / "__transaction_state-0" / "00000000000000000000.log"
    dump = java.run(MAIN_CLASSES["kafka-dump-log"], "--transaction-log-decoder", "--files", str(segment))
    assert dump.exit_code == 0
    assert "isvalid: false" not in dump.stdout
    statuses = re.findall(r'"transactionalId":"open".*?"transactionStatus":"?(\w+)', dump.stdout)
    names = ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert statuses == (names if KAFKA_LINE >= (4, 4) else ["0", "1", "1", "2", "4"])
