"""A broker that is stopped in order and started again under load: clients go on, and try again at most."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import OurBroker
from tests.support.history import History
from tests.support.history_load import stock_load
from tests.support.scale import scaled

RESTARTS = min(50, scaled(3))


def test_clients_go_on_over_restarts(tmp_path: Path, history: History) -> None:
    """Every record once and in order; no producer begins anew, each stop is clean."""
    broker = OurBroker(tmp_path / "broker")
    try:
        load = stock_load(broker, history)
        load.get_on(50)
        for _ in range(RESTARTS):
            assert broker.stop() == 0
            assert (broker.log_dir / ".kafka_cleanshutdown").exists()
            broker.start()
            load.get_on(50)
        load.end(broker.port)
        assert {producer.name: producer.lives for producer in load.producers} == dict.fromkeys(
            [producer.name for producer in load.producers], 1
        )
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.kill()
