"""A broker is stopped cleanly and started again under load: clients continue, and at most retry."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import OurBroker
from tests.support.history import History
from tests.support.history_load import stock_load
from tests.support.history_members import sessions
from tests.support.scale import scaled

RESTARTS = min(50, scaled(3))
#: Longer than a restart takes on a busy machine: members keep their partitions.
SESSION_MS = 30_000


def test_clients_continue_across_restarts(tmp_path: Path, history: History) -> None:
    """Every record once and in order. No producer is reset, no group rebalances, no start has to recover."""
    with OurBroker(tmp_path / "broker", sessions(SESSION_MS)) as broker:
        # No transaction is aborted: librdkafka also ends a transaction whose partitions it could not add before the
        # connection broke, and must begin again when the broker knows no such transaction.
        load = stock_load(broker, history, session_ms=SESSION_MS, aborted=0)
        load.get_on(50)
        lives = [member.lives for member in load.members]
        for _ in range(RESTARTS):
            assert broker.stop() == 0
            assert (broker.log_dir / ".kafka_cleanshutdown").exists()
            broker.start()
            load.get_on(50)
        assert [member.lives for member in load.members] == lives
        load.end(broker.bootstrap)
        assert {producer.name: producer.lives for producer in load.producers} == dict.fromkeys(
            [producer.name for producer in load.producers], 1
        )
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
